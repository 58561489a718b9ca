/* Whatever bytes come: msccl_xml_load ends, what it refuses it refuses with a reason, and what it
 * accepts it can write down and accepts once more. */
#include <stdint.h>
#include <stdlib.h>

#include "studio/foreign/msccl_export.h"
#include "studio/foreign/msccl_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan *plan, *again;
    struct msccl_report report;
    char message[200], *text = NULL;
    msccl_xml_load((const char *)data, size, &plan, &report);
    if ((plan != NULL) != (report.verdict == MSCCL_PROVEN)) abort();
    if (plan == NULL) {
        if (report.message[0] == '\0') abort();
        return 0;
    }
    const struct msccl_export_options options = {
        .profile = msccl_profile_find("msccl"), .name = "again", .in_place = report.in_place};
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) abort();
    const enum tutti_status status = msccl_export(plan, &options, file, message, sizeof message);
    if (fclose(file) != 0) abort();
    if (status == TUTTI_OK) {
        msccl_xml_load(text, size, &again, &report);
        if (report.verdict == MSCCL_WRONG) abort();
        plan_free(again);
    }
    free(text);
    plan_free(plan);
    return 0;
}
