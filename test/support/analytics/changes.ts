import fc from "fast-check";
import type { TestApp } from "../app/app.ts";
import { eventually } from "../eventually.ts";
import { must } from "../http/client.ts";
import { type AskedBothWays, rollUpAll } from "./both-ways.ts";
import type { Asker } from "./questions.ts";

const ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Sao_Paulo"];
const USERS = ["a", "b", "c", "d", "e", "f"];
export const START_MS = Date.parse("2018-10-30");
const HOUR_MS = 3_600_000;

const anEvent = fc.record({
  user: fc.constantFrom(...USERS),
  type: fc.constantFrom("seen", "won", "lost"),
  hour: fc.oneof(
    fc.double({ min: -45 * 24, max: 10 * 24, noNaN: true }),
    // Several at one time, at the edges of quarters of an hour.
    fc.integer({ min: 0, max: 40 }).map((quarter) => quarter / 4),
  ),
});

/** What happens between two looks at the numbers. */
export const aChange = fc.oneof(
  { weight: 4, arbitrary: fc.array(anEvent, { minLength: 1, maxLength: 25 }).map((events) => ({ events })) },
  { weight: 3, arbitrary: fc.constant({ rollUp: true as const }) },
  { weight: 3, arbitrary: fc.nat({ max: 200 }).map((revert) => ({ revert })) },
  {
    weight: 1,
    arbitrary: fc
      .uniqueArray(fc.constantFrom(...USERS), { minLength: 2, maxLength: 2 })
      .map((merge) => ({ merge })),
  },
  { weight: 1, arbitrary: fc.constantFrom(...USERS).map((erase) => ({ erase })) },
);
export type Change = typeof aChange extends fc.Arbitrary<infer T> ? T : never;

/** When a question is asked about, from START_MS on. */
export const aQuestion = fc.record({
  timezone: fc.constantFrom(...ZONES),
  from: fc.integer({ min: -5, max: 5 }),
  days: fc.integer({ min: 1, max: 10 }),
  /** Minutes of the day at which the range begins and ends; 0: whole days. */
  minutes: fc.constantFrom(0, 0, 7, 15, 725.5),
  asOf: fc.oneof(fc.constant(60 * 24), fc.double({ min: -2 * 24, max: 11 * 24, noNaN: true })),
});

const ids = async (api: TestApp, { tenant }: Asker): Promise<string[]> => {
  const { data } = must(await api.get("/api/v1/events?limit=100", { key: tenant.key }), 200);
  return data.map(({ id }: { id: string }) => id).toSorted();
};

const playerId = async (api: TestApp, { tenant }: Asker, user: string): Promise<string | undefined> => {
  const found = await api.get(`/api/v1/players/ext:${user}`, { key: tenant.key });
  return found.status === 200 ? found.body.id : undefined;
};

const untilOver = (api: TestApp, key: string, jobId: string) =>
  eventually(async () => {
    const { status } = must(await api.get(`/api/v1/jobs/${jobId}`, { key }), 200);
    return status !== "QUEUED" && status !== "RUNNING";
  });

/** Reverts an event, if it can be, until all is taken back that it has done. */
const revert = async (api: TestApp, key: string, id: string): Promise<void> => {
  const path = `/api/v1/events/${id}`;
  const { status } = await api.post(`${path}/revert`, { reason: "test" }, { key });
  if (status < 300)
    await eventually(async () => must(await api.get(path, { key }), 200).status === "REVERTED");
};

/** Makes a change of a project. */
export const apply = async (api: TestApp, asker: Asker, change: Change): Promise<void> => {
  const { key, projectId } = asker.tenant;
  if ("rollUp" in change) await rollUpAll(api, projectId);
  else if ("events" in change)
    await asker.store(
      change.events.map(({ user, type, hour }) => [
        user,
        type,
        new Date(Math.floor(START_MS + hour * HOUR_MS)).toISOString(),
      ]),
    );
  else if ("revert" in change) {
    const all = await ids(api, asker);
    if (all.length > 0) await revert(api, key, all[change.revert % all.length]!);
  } else if ("merge" in change) {
    const [target, source] = await Promise.all(change.merge.map((user) => playerId(api, asker, user)));
    if (target && source)
      await api.post(`/api/v1/players/${target}/merge`, { sourcePlayerId: source }, { key });
  } else {
    const id = await playerId(api, asker, change.erase);
    if (!id) return;
    const job = await api.post(`/api/v1/players/${id}/erase`, { reason: "test" }, { key });
    // Until it is over, some events are still those of the name, and some not any more.
    if (job.status === 201) await untilOver(api, key, job.body.id);
  }
};

type When = typeof aQuestion extends fc.Arbitrary<infer T> ? T : never;

/** Returns when a question of a project is asked about. */
export const whenOf = (projectId: string, { timezone, from, days, minutes, asOf }: When): AskedBothWays => {
  const frame = {
    projectId,
    timezone,
    weekStart: "monday" as const,
    dayStartsMs: 0,
    asOfMs: Math.floor(START_MS + asOf * HOUR_MS),
    aheadMs: 0,
  };
  const at = (day: number) => new Date(START_MS + (day * 24 + minutes / 60) * HOUR_MS).toISOString();
  const [first, last] = [at(from), at(from + days)];
  const query =
    minutes === 0 ? { from: first.slice(0, 10), to: last.slice(0, 10) } : { from: first, to: last };
  return { frame, query };
};
