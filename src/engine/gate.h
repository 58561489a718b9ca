/* gate.h - a condition that an operation waits for before it runs, and which is told when the
 * operation is over: for example a device's stream, whose earlier work fills the input, and whose
 * later work reads the output.
 *
 *     prepared ──► gated ──the gate opens──► running ──done──► ended
 *                    └────────given up──────────┴───given up────┘
 *
 * Until the gate opens the operation touches neither buffers nor links, and no other rank sees a
 * message or an address of it. It occupies its slot: the next operation of that slot waits for it,
 * and no other one does.
 */
#ifndef TUTTI_ENGINE_GATE_H
#define TUTTI_ENGINE_GATE_H

#include <stdbool.h>

struct operation_gate {
    const struct operation_gate_ops *ops;
};

/* The thread that runs the operation calls both functions. Neither may wait. */
struct operation_gate_ops {
    /* Whether the operation may run. Once the answer was true, the gate is not asked again in that
     * run of the operation. A gate that opens while all threads sleep wakes the transport (`wake`)
     * if it can; otherwise its rank finds it open at its next look. */
    bool (*is_open)(struct operation_gate *gate);
    /* The operation is over, and its buffers belong to the caller. is_done: the result is there;
     * otherwise the operation was given up, perhaps before the gate opened. Called once for each
     * operation; the operation does not touch the gate after that. */
    void (*end)(struct operation_gate *gate, bool is_done);
};

#endif
