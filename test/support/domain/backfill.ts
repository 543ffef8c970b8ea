import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { compileMetric, Metric } from "../../../src/domain/evaluation/metrics/compile.ts";
import { foldEvents } from "../../../src/domain/evaluation/metrics/count.ts";
import { type JobKind, queueJob } from "../../../src/domain/long-work/project-jobs.ts";
import { JobSteps } from "../../../src/domain/long-work/step-job.ts";
import { JOB_KINDS } from "../../../src/domain/registries/jobs/kinds.ts";
import type { Domain } from "./domain.ts";
import { aPlan, aPlayerState } from "../rules/plan.ts";

const fail = (error: unknown): never => assert.fail(String(error));

/** Queues a job and does its steps, with `between` after each one. */
export const runJob = async (
  { transact }: Domain,
  projectId: string,
  job: { kind: JobKind; params: Json; between?: () => Promise<unknown> },
): Promise<{ result: Json; steps: number }> => {
  const { kind, params, between } = job;
  const { id } = await transact((work) => queueJob(work, projectId, { kind, params, createdBy: "test" }));
  let steps = 0;
  const jobs = new JobSteps({ transact, kinds: JOB_KINDS, onError: fail });
  while (await jobs.step()) {
    steps++;
    await between?.();
  }
  const { rows } = await transact(({ db }) =>
    sql<{ result: Json; status: string }>`
      select result, status from project_jobs where project_id = ${projectId} and id = ${id}`.execute(db),
  );
  assert.equal(rows[0]?.status, "SUCCEEDED");
  return { result: rows[0].result, steps };
};

/** A counter of each player as it is kept, by external id. */
export const countersIn = async (
  { transact }: Domain,
  projectId: string,
  metric: Json,
): Promise<Record<string, unknown>> => {
  const { id } = compileMetric(Metric.parse(metric));
  const { rows } = await transact(({ db }) =>
    sql<{ u: string; c: unknown }>`
      select p.external_user_id as u, s.doc->'c'->${id} as c from players p
      left join player_states s on s.project_id = p.project_id and s.player_id = p.id
      where p.project_id = ${projectId}`.execute(db),
  );
  return Object.fromEntries(rows.map(({ u, c }) => [u, c ?? undefined]));
};

/** What each player's stored events come to, counted apart from any processing. */
export const countersOfEvents = async (
  { transact }: Domain,
  projectId: string,
  document: Json,
): Promise<Record<string, unknown>> => {
  const metric = compileMetric(Metric.parse(document));
  const { rows } = await transact(({ db }) =>
    sql<{ u: string; t: string; p: Json; at: Date | string }>`
      select external_user_id as u, event_type as t, properties as p,
        least(occurred_at, received_at) as at from tracked_events
      where project_id = ${projectId} order by id`.execute(db),
  );
  const whose = { player: aPlayerState(), project: aPlan() };
  const counters: Record<string, unknown> = {};
  for (const { u, t, p, at } of rows) {
    const event = { type: t, at: new Date(at).getTime(), properties: p };
    counters[u] = foldEvents(metric, whose, [event], { state: counters[u] as never });
  }
  return counters;
};
