/* msccl_import.h - makes a plan of what an MSCCL file says, and proves it. */
#ifndef TUTTI_STUDIO_FOREIGN_MSCCL_IMPORT_H
#define TUTTI_STUDIO_FOREIGN_MSCCL_IMPORT_H

#include "plan/plan.h"
#include "studio/foreign/msccl_algo.h"
#include "studio/foreign/msccl_report.h"

/* Numbers of the algo are within the bounds of msccl_algo.h, and nothing else is believed. *report
 * says what came of it; *plan is the caller's where that is MSCCL_PROVEN, and NULL otherwise. Pure;
 * any thread. */
void msccl_import(const struct msccl_algo *algo, struct plan **plan, struct msccl_report *report);

#endif
