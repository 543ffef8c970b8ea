import { z } from "zod";
import type { Caller } from "../../domain/kernel/caller.ts";
import { ANY_JOB, jobsSeenBy } from "../../domain/registries/jobs/kinds.ts";
import {
  cancelJob,
  createResultReader,
  getJob,
  JOB_ORDERS,
  JOB_STATUSES,
  type JobRef,
  listJobs,
  ProjectJob,
} from "../../domain/long-work/project-jobs.ts";
import { ReadyJson } from "../../domain/kernel/caches.ts";
import { group } from "../route.ts";
import { paged, pageReply } from "./bodies.ts";

const common = group({ tag: "Jobs", project: "caller", access: ANY_JOB });

type JobRequest = { caller: Caller; projectId: string; params: { jobId: string } };

const refOf = ({ caller, projectId, params }: JobRequest): JobRef => ({
  projectId,
  id: params.jobId,
  ...jobsSeenBy(caller),
});

const readResult = createResultReader();

export const projectJobRoutes = [
  common.get("/jobs", "listJobs", {
    summary: "List long-running jobs",
    description: "Those of the kinds that the caller may start; the others are not there for them.",
    ...paged(ProjectJob, JOB_ORDERS, {
      kind: z.string().max(64).optional(),
      status: z.enum(JOB_STATUSES).optional(),
    }),
    run: async (work, { caller, projectId, query }) => {
      const asked = { ...query, ...jobsSeenBy(caller) };
      return pageReply(await listJobs(work, projectId, asked), "jobs", query);
    },
  }),
  common.get("/jobs/{jobId}", "getJob", {
    summary: "Get a job",
    response: ProjectJob,
    run: (work, asked) => getJob(work, refOf(asked)),
  }),
  common.get("/jobs/{jobId}/result", "getJobResult", {
    summary: "Get the result of a job",
    description: "A job that has not succeeded has none (409). Results go a day after the job's end.",
    response: z.record(z.string(), z.unknown()),
    outside: async (app, asked) => {
      const text = await readResult(app.transact, refOf(asked));
      return new ReadyJson(Buffer.from(text)) as never;
    },
  }),
  common.post("/jobs/{jobId}/cancel", "cancelJob", {
    summary: "Cancel a job",
    description: "It stops before its next step; completed steps are kept.",
    response: ProjectJob,
    run: (work, asked) => cancelJob(work, refOf(asked)),
  }),
];
