import { z } from "zod";
import { sql } from "kysely";
import { SNAPSHOT } from "../kernel/cursor.ts";
import { DomainError, notFound } from "../kernel/errors.ts";
import { idFloor, timeOfId } from "../kernel/ids.ts";
import { limitsOf, type Plan, planLimitExceeded, type PlanLimits } from "../kernel/caller.ts";
import { asOneMessage } from "../kernel/statements.ts";
import { etagOf, ReadyJson, type SizedCache } from "../kernel/caches.ts";
import type { Work } from "../kernel/work.ts";
import {
  DAY_MS,
  dayFrame,
  dayStart,
  type Frame,
  type ProjectDays,
  type Range,
  rangeOf,
  type RangeQuery,
  RangeView,
  readAsOf,
  showRange,
  today,
  type WeekStart,
} from "./range.ts";
import { eventsOf } from "./events.ts";
import { daysUntil, ZONES_MAX } from "./rollups/closed-days.ts";
import { findFirstTime } from "./rollups/players.ts";
import { openRolled } from "./rollups/rolled.ts";

/** How old an answer from memory may be, in ms, where nothing has happened since. */
const KEPT_MS = 60_000;
/** Ids are stamped before their transaction commits: for so long one may come behind a later one, in ms. */
const COMMIT_MS = 120_000;
/** Where more rows than these came in that time, every moment brings a newer one. */
const COUNTED_MAX = 20_000;

/** What every question says beside its own fields. */
export type FrameQuery = {
  timezone?: string | undefined;
  asOf?: string | undefined;
  weekStart?: WeekStart | undefined;
};

/** What every answer says beside its own fields. */
export const Envelope = z.object({
  range: RangeView,
  timezone: z.string(),
  asOf: z.iso.datetime(),
  generatedAt: z.iso.datetime(),
  cache: z
    .object({ hit: z.boolean(), ageSeconds: z.int() })
    .meta({ description: "Answers come from memory for up to a minute, where nothing has happened since" }),
});
export type Envelope = z.output<typeof Envelope>;

/** An answer, as it was made; `fingerprint`: of the data it was made from. */
export type KeptAnswer = {
  fingerprint: string;
  madeMs: number;
  asOfMs: number;
  range: RangeView;
  /** JSON of an object. */
  text: string;
  etag: string;
};

/** What a question is asked about: where, when, and what else is needed to resolve it. */
export type Asked = { frame: Frame; range: Range };

type Facts = ProjectDays & {
  tenantId: string;
  /** In which days are closed, beside its own. */
  zones: string[];
  plan: Plan;
  planOverrides: Partial<PlanLimits>;
  lastEvent: string | null;
  lastLine: string | null;
  isReplica: boolean;
  /** Of a replica: when the last transaction was that it has, in ms; null where none came since its start. */
  replayedMs: number | null;
};

/** The project's zone, its plan, and its newest rows. */
const readFacts = async ({ db }: Work, projectId: string): Promise<Facts> => {
  const { rows } = await sql<Facts>`
    select p.timezone, p.settings, p.tenant_id as "tenantId",
      array(select z.timezone from analytics_zones z where z.project_id = p.id) as zones,
      t.plan, t.plan_overrides as "planOverrides",
      (select e.id::text from tracked_events e where e.project_id = p.id
        order by e.id desc limit 1) as "lastEvent",
      pg_is_in_recovery() as "isReplica",
      extract(epoch from pg_last_xact_replay_timestamp())::float8 * 1000 as "replayedMs",
      (select o.id::text from outbox o where o.project_id = p.id order by o.id desc limit 1) as "lastLine"
    from projects p join tenants t on t.id = p.tenant_id where p.id = ${projectId}::uuid`.execute(db);
  if (!rows[0]) throw notFound("project");
  return rows[0];
};

/** Changes with every event, revert, merge and erasure: says whether anything has happened since. */
const readFingerprint = async (
  { db }: Work,
  { projectId }: Frame,
  { lastEvent, lastLine, timezone }: Facts,
): Promise<string> => {
  const counted = (table: "tracked_events" | "outbox", last: string | null) => sql`
    (select count(*) from (select from ${sql.table(table)} where project_id = ${projectId}::uuid
      and id > ${idFloor(last === null ? 0 : timeOfId(last) - COMMIT_MS)}::uuid limit ${COUNTED_MAX}) c)`;
  const { rows } = await sql<{ events: string; lines: string }>`
    select ${counted("tracked_events", lastEvent)}::text as events,
      ${counted("outbox", lastLine)}::text as lines`.execute(db);
  const { events, lines } = rows[0]!;
  return [timezone, lastEvent, events, lastLine, lines].join(" ");
};

/** The time of a project's first event in ms, or that at which its day begins; undefined without any. */
const readFirstEvent = async (work: Work, frame: Frame): Promise<number | undefined> => {
  const days = await daysUntil(work, frame, frame.asOfMs);
  if (days && days.size > 0) return dayStart(frame, Math.min(...days.keys()));
  const rolled = await openRolled(work, frame);
  if (rolled) return findFirstTime(work, rolled);
  const { db } = work;
  const { rows } = await sql<{ ms: number | null }>`
    select extract(epoch from min(at))::float8 * 1000 as ms from (${eventsOf(frame)}) e`.execute(db);
  return rows[0]!.ms ?? undefined;
};

/** @throws DomainError PAYMENT_REQUIRED for a range that begins before what the plan shows */
const checkHistory = (frame: Frame, range: Range, days: number | null, nowMs: number): void => {
  if (days === null) return;
  if (range.firstDay > today({ ...frame, asOfMs: nowMs }) - days) return;
  throw planLimitExceeded(`Your plan shows the last ${days} days of analytics; from is before that.`);
};

/** `daysMax`: of the range, where not as many as a series may have points. */
type Question = { projectId: string; query: FrameQuery & RangeQuery; daysMax?: number | undefined };

/**
 * Returns how far the database knows what happened, in ms: a replica is behind.
 * @throws DomainError SERVICE_UNAVAILABLE where it cannot tell
 */
const knownUntil = (nowMs: number, aheadMs: number, { isReplica, replayedMs }: Facts): number => {
  if (!isReplica) return nowMs;
  if (replayedMs === null)
    throw new DomainError("SERVICE_UNAVAILABLE", "The replica for analytics does not follow yet.");
  return Math.min(nowMs, Math.floor(replayedMs) + aheadMs);
};

/**
 * Resolves the zone, the moment and the range of a question, within the plan's history.
 * @throws DomainError VALIDATION_ERROR, PAYMENT_REQUIRED
 */
const resolve = async (work: Work, { projectId, query, daysMax }: Question, facts: Facts): Promise<Asked> => {
  const nowMs = work.now.getTime();
  const aheadMs = nowMs - work.serverNow.getTime();
  const frame: Frame = {
    projectId,
    ...dayFrame(facts, query),
    asOfMs: Math.min(readAsOf(query.asOf, nowMs), knownUntil(nowMs, aheadMs, facts)),
    aheadMs,
  };
  const { analyticsHistoryDays: days } = limitsOf(facts);
  const isAll = query.period === "all";
  const allowedMs = days === null ? -Infinity : nowMs - (days - 1) * DAY_MS;
  const firstMs = isAll ? await readFirstEvent(work, frame) : undefined;
  const range = rangeOf(frame, query, {
    ...(days === null ? {} : { days }),
    daysMax,
    firstEventMs: firstMs === undefined ? undefined : Math.max(firstMs, allowedMs),
  });
  checkHistory(frame, range, days, nowMs);
  return { frame, range };
};

/**
 * Resolves the zone, the moment and the range of a question that is not answered from memory.
 * @throws DomainError VALIDATION_ERROR, PAYMENT_REQUIRED
 */
export const ask = async (work: Work, question: Question): Promise<Asked> =>
  resolve(work, question, await readFacts(work, question.projectId));

/** `addZone`: has days closed in another zone that was asked about; a question itself writes nothing. */
type Answering = {
  work: Work;
  kept: SizedCache<KeptAnswer>;
  addZone: (of: { tenantId: string; timezone: string }) => void;
};

/**
 * Answers a question from one snapshot of the database, or from memory where nothing has happened since the
 * answer was made, at most a minute ago. Answers of a given `asOf` are the same for as long.
 * @param key what else the question is made of, such as its name and fields
 */
export const answer = async (
  { work, kept, addZone }: Answering,
  question: Question & { key: string },
  compute: (asked: Asked) => Promise<object>,
): Promise<ReadyJson> => {
  await asOneMessage(work.db, SNAPSHOT);
  const facts = await readFacts(work, question.projectId);
  const asked = await resolve(work, question, facts);
  const fingerprint = await readFingerprint(work, asked.frame, facts);
  const { timezone, weekStart, dayStartsMs } = asked.frame;
  const { tenantId, zones } = facts;
  if (![facts.timezone, ...zones].includes(timezone) && zones.length < ZONES_MAX)
    work.afterCommit(() => addZone({ tenantId, timezone }));
  const cacheKey = JSON.stringify([question.projectId, question.key, timezone, weekStart, dayStartsMs]);
  const nowMs = work.now.getTime();
  const found = kept.get(cacheKey);
  if (found && found.fingerprint === fingerprint && nowMs - found.madeMs < KEPT_MS && nowMs >= found.madeMs)
    return show(asked.frame, found, { nowMs, isHit: true });
  const text = JSON.stringify(await compute(asked));
  const range = showRange(asked.frame, asked.range);
  const made: KeptAnswer = {
    fingerprint,
    madeMs: nowMs,
    asOfMs: asked.frame.asOfMs,
    range,
    text,
    etag: etagOf(Buffer.from(JSON.stringify([range, timezone]) + text)),
  };
  const bytes = 2 * text.length + cacheKey.length;
  return show(asked.frame, kept.keep(cacheKey, made, { owner: question.projectId, bytes }), {
    nowMs,
    isHit: false,
  });
};

const show = (
  { timezone }: Frame,
  { text, etag, madeMs, asOfMs, range }: KeptAnswer,
  { nowMs, isHit }: { nowMs: number; isHit: boolean },
): ReadyJson => {
  const envelope: Envelope = {
    range,
    timezone,
    asOf: new Date(asOfMs).toISOString(),
    generatedAt: new Date(madeMs).toISOString(),
    cache: { hit: isHit, ageSeconds: Math.floor((nowMs - madeMs) / 1_000) },
  };
  const head = JSON.stringify(envelope).slice(0, -1);
  return new ReadyJson(Buffer.from(text === "{}" ? `${head}}` : `${head},${text.slice(1)}`), etag);
};
