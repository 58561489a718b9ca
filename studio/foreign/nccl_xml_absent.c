/* nccl_xml_absent.c - in place of nccl_xml.c where expat is not there. */
#include "base/status.h"
#include "studio/foreign/nccl_xml.h"

enum tutti_status nccl_xml_load(const char *text, size_t text_bytes, struct topo *topo,
                                nccl_xml_note *note, void *context)
{
    (void)text;
    (void)text_bytes;
    (void)note;
    (void)context;
    *topo = (struct topo){0};
    return error_set(TUTTI_UNSUPPORTED,
                     "topology: Tutti was built without expat, and so reads no XML of NCCL");
}
