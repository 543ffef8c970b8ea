import assert from "node:assert/strict";
import { eventually } from "../eventually.ts";
import { type Answer, type Client, must } from "../http/client.ts";

/** Waits until no event of a project waits any more. */
export const allProcessed = (api: Client, { key }: { key: string }, timeoutMs: number): Promise<boolean> =>
  eventually(
    async () => must(await api.get("/api/v1/events?status=PENDING&limit=1", { key }), 200).data.length === 0,
    { timeoutMs, label: "every event is processed" },
  );

type Job = { id: string; kind: string; status: string; error: string };

const ENDS = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);

/** A job, once it is over. */
export const endedJob = (api: Client, { key }: { key: string }, jobId: string): Promise<Job> =>
  eventually(
    async (): Promise<Job | false> => {
      const job: Job = must(await api.get(`/api/v1/jobs/${jobId}`, { key }), 200);
      return ENDS.has(job.status) && job;
    },
    { timeoutMs: 60_000, label: "the job is over" },
  );

/** Waits for a job, which must succeed, and answers its result. */
export const jobResult = async (
  api: Client,
  { key }: { key: string },
  jobId: string,
): Promise<Answer["body"]> => {
  const { status, error } = await endedJob(api, { key }, jobId);
  assert.equal(status, "SUCCEEDED", error);
  return must(await api.get(`/api/v1/jobs/${jobId}/result`, { key }), 200);
};
