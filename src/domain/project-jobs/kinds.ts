import { segmentRefresh } from "../segments/refresh-job.ts";
import type { JobKind } from "./job-kind.ts";

/** Every kind of long work. */
export const JOB_KINDS: readonly JobKind[] = [segmentRefresh];
