#include "membership/silence.h"

static const uint64_t SILENT_NS = 5000000000u, GAP_NS = 100000000;

void silence_tell(struct silence *silence, uint64_t now_ns)
{
    if (silence->told_ns == 0) *silence = (struct silence){.told_ns = now_ns};
}

bool silence_look(struct silence *silence, uint64_t heard_ns, uint64_t now_ns)
{
    if (silence->told_ns == 0) return false;
    if (heard_ns > silence->told_ns) {
        *silence = (struct silence){0};
        return false;
    }
    const uint64_t since_ns = silence->looked_ns != 0 ? silence->looked_ns : silence->told_ns;
    const uint64_t gap_ns = now_ns > since_ns ? now_ns - since_ns : 0;
    silence->silent_ns += gap_ns < GAP_NS ? gap_ns : GAP_NS;
    silence->looked_ns = now_ns;
    return silence->silent_ns > SILENT_NS;
}

bool silence_is_long(struct silence *silence, uint64_t answered_ns, uint64_t now_ns)
{
    if (answered_ns > silence->told_ns) {
        const uint64_t ago_ns = now_ns > answered_ns ? now_ns - answered_ns : 0;
        silence->told_ns = answered_ns;
        if (ago_ns < silence->silent_ns) silence->silent_ns = ago_ns;
    }
    return silence->silent_ns > SILENT_NS;
}
