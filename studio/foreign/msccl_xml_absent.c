/* msccl_xml_absent.c - in place of msccl_xml.c where expat is not there. */
#include "studio/foreign/msccl_xml.h"

void msccl_xml_load(const char *text, size_t text_bytes, struct plan **plan,
                    struct msccl_report *report)
{
    (void)text;
    (void)text_bytes;
    *plan = NULL;
    *report = (struct msccl_report){.verdict = MSCCL_PROVEN};
    msccl_refuse(report, MSCCL_NOT_KNOWN, 0, -1, -1, -1,
                 "Tutti was built without expat, and so reads no XML");
}
