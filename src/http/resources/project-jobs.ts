import { z } from "zod";
import { ADMINS, EVERY_ROLE } from "../../domain/access.ts";
import { pageBody, PageQuery } from "../../domain/paging.ts";
import {
  cancelJob,
  getJob,
  getJobResult,
  JOB_STATUSES,
  listJobs,
} from "../../domain/project-jobs/project-jobs.ts";
import { route } from "../route.ts";
import { pageReply } from "./list-bodies.ts";

/** What the operations that start long work answer. */
export const JobBody = z
  .object({
    id: z.uuid(),
    kind: z.string().meta({ example: "BULK_GRANT" }),
    status: z.enum(JOB_STATUSES),
    progress: z.int().meta({ description: "Percent" }),
    error: z.string().nullable(),
    createdBy: z.string(),
    createdAt: z.iso.datetime(),
    finishedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: "Job" });

const JobParams = z.object({ jobId: z.string().max(64) });
const common = { tag: "Jobs", project: "caller" } as const;
const read = { ...common, access: { scope: "config:read", roles: EVERY_ROLE } } as const;
const write = { ...common, access: { scope: "config:manage", roles: ADMINS } } as const;

export const projectJobRoutes = [
  route({
    ...read,
    method: "get",
    path: "/jobs",
    id: "listJobs",
    summary: "List long-running jobs",
    query: PageQuery.extend({
      kind: z.string().max(64).optional(),
      status: z.enum(JOB_STATUSES).optional(),
    }),
    response: pageBody(JobBody),
    run: (app, { projectId, query }) =>
      app.transact(async (work) => {
        const { jobs, ...total } = await listJobs(work, projectId, query);
        return pageReply(jobs, total, query);
      }),
  }),
  route({
    ...read,
    method: "get",
    path: "/jobs/{jobId}",
    id: "getJob",
    summary: "Get a job",
    params: JobParams,
    response: JobBody,
    run: (app, { projectId, params }) => app.transact((work) => getJob(work, projectId, params.jobId)),
  }),
  route({
    ...write,
    method: "get",
    path: "/jobs/{jobId}/result",
    id: "getJobResult",
    summary: "Get what a job came to",
    description: "A job that has not succeeded has none (409). Results go a day after the job's end.",
    params: JobParams,
    response: z.record(z.string(), z.unknown()),
    run: (app, { projectId, params }) => app.transact((work) => getJobResult(work, projectId, params.jobId)),
  }),
  route({
    ...write,
    method: "post",
    path: "/jobs/{jobId}/cancel",
    id: "cancelJob",
    summary: "Cancel a job",
    description: "It stops before its next step; what it has done stays done.",
    params: JobParams,
    response: JobBody,
    run: (app, { projectId, params }) => app.transact((work) => cancelJob(work, projectId, params.jobId)),
  }),
];
