/* options.h - what the user may ask for. */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H

#include "trainer.h"

struct options {
    const char *text_path;      /* NULL: licences */
    const char *tokenizer_path; /* NULL: always trained anew */
    struct trainer_options trainer;
    size_t report_steps; /* between lines in a pipe; 0: 12 lines */
    size_t write_tokens;
    double temperature;
    bool check_gradients;
};

/* Fills in the options. Returns -1 to go on, otherwise the exit status: 0 after --help, 2 after a mistake. */
int options_parse(int argument_count, char **arguments, struct options *options);

#endif
