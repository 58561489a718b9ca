/* options.h - what the user may ask for. */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H

#include "checkpointing.h"

struct options {
    const char *text_path;      /* NULL: licences */
    const char *tokenizer_path; /* NULL: always trained anew */
    struct trainer_options trainer;
    size_t report_steps; /* between lines in a pipe; 0: 12 lines */
    size_t held_out_samples, write_tokens;
    double temperature;
    bool check_gradients;
    struct parallel_options parallel; /* replicas 0: as many as there are ranks for */
    bool has_micro_batch;             /* the user said how large it is */
    bool wants_ranks; /* an option was given that is for many ranks, or as many as there are */
    bool check_single;
    bool is_elastic;         /* ranks may die and join (elastic_trainer.h) */
    const char *mesh_option; /* the last one that was given that --elastic has no use for; or NULL */
    bool tells;              /* of many ranks with the same arguments, what is told once */
    struct checkpointing_options checkpointing;
};

/* Fills in the options. Returns -1 to go on, otherwise the exit status: 0 after --help, 2 after a
 * mistake. */
int options_parse(int argument_count, char **arguments, struct options *options);

#endif
