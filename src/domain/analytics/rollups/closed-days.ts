import { sql } from "kysely";
import {
  type DayFrame,
  dayBuckets,
  dayFrame,
  dayStart,
  type Frame,
  localDay,
  type ProjectDays,
  type Range,
} from "../range.ts";
import { type Periods, periodAt } from "../events.ts";
import { type Days, DaySums, isSame, NEVER, Standing } from "./day-sums.ts";
import { CHUNK_PLAYERS, DAY_MS, STATEMENT_LENGTH } from "./documents.ts";
import { areDivisible, eachRolledPlayer, findFirstTime } from "./players.ts";
import { openRolled, type Rolled } from "./rolled.ts";
import { tableTexts } from "../../kernel/json.ts";
import { localKey, type Work } from "../../kernel/work.ts";

/**
 * Local days that are over are kept added up, so that whoever opens the overview of a large game need not wait
 * until all that its players ever did is read. Of some days it is also kept when each player had been active
 * before: from there on, days since are added up with each question.
 */

/** Of days further back, only some of each 32nd keep when players were active before: the older, the fewer. */
const RECENT_DAYS = 35;
const SPARSE_DAYS = 32;
/** Days that are added up at once, by the job and for a question: more would keep everybody waiting. */
const STEP_DAYS_MAX = 8_192;
const QUESTION_DAYS_MAX = 400;
/** Closed days that a question reads: those of 27 years. */
const CLOSED_DAYS_MAX = 10_000;
/** Before 1972 some clocks went by seconds: days of then are closed where so long nothing else happened. */
const LONELY_DAYS = 365;

/** Days of what: data of zones change with the runtime. */
const calendarOf = ({ timezone, dayStartsMs }: DayFrame): string =>
  JSON.stringify([timezone, dayStartsMs, process.versions["tz"]]);

type Asking = { frame: Frame; rolled: Rolled };
type Place = { projectId: string; calendar: string };

const placeOf = (frame: Frame): Place => ({ projectId: frame.projectId, calendar: calendarOf(frame) });

const readStanding = async ({ db }: Work, { projectId, calendar }: Place, day: number): Promise<Standing> => {
  const { rows } = await sql<{ chunk: number; document: Uint8Array }>`
    select chunk, document from analytics_standings where project_id = ${projectId}::uuid
      and calendar = ${calendar} and day = ${day}::int`.execute(db);
  return Standing.read(day, rows);
};

/** The last day up to which players who are one person by now were known as one, or only one had come. */
const unitedUntil = ({ persons }: Rolled, standing: Standing): number => {
  let until = Infinity;
  for (const { numbers } of persons.values()) {
    const firsts = numbers.flatMap((no) => (standing.lastOf(no) === NEVER ? [] : [standing.first[no]!]));
    if (firsts.length > 1) until = Math.min(until, firsts.toSorted((a, b) => a - b)[1]!);
  }
  return until;
};

/** The first day of what rollups do not hold, or hold although it does not count. */
const settledUntil = (frame: Frame, { tails, persons }: Rolled): number => {
  let ms = Infinity;
  for (const tail of [...tails.values(), ...[...persons.values()].map((person) => person.tail)])
    for (const event of tail) ms = Math.min(ms, event.ms);
  return ms === Infinity ? Infinity : localDay(frame, ms);
};

type Found = {
  day: number;
  /** What had to be read of it: nothing, unless players were merged. */
  standing?: Standing | undefined;
};

/** Finds the newest day up to `until` from which on days can be added up; undefined where there is none. */
const findDay = async (work: Work, { frame, rolled }: Asking, until: number): Promise<Found | undefined> => {
  const place = placeOf(frame);
  for (let latest = Math.min(until, settledUntil(frame, rolled)); ;) {
    const { rows } = await sql<{ day: number | null }>`
      select max(day) as day from analytics_standings where project_id = ${place.projectId}::uuid
        and calendar = ${place.calendar} and day <= ${Math.min(latest, 2 ** 31 - 1)}::int`.execute(work.db);
    const day = rows[0]!.day;
    if (day === null) return undefined;
    if (rolled.persons.size === 0) return { day };
    const standing = await readStanding(work, place, day);
    latest = unitedUntil(rolled, standing);
    if (latest >= day) return { day, standing };
  }
};

const findStanding = async (work: Work, asking: Asking, until: number): Promise<Standing | undefined> => {
  const found = await findDay(work, asking, until);
  return found && (found.standing ?? readStanding(work, placeOf(asking.frame), found.day));
};

/**
 * Adds up the days from that of a standing on, which knows these players' days then. Returns whether the days
 * could be told apart.
 */
const addDays = async (
  work: Work,
  { frame, rolled, standing, untilMs }: Asking & { standing: Standing; untilMs: number },
  days: Map<number, DaySums>,
): Promise<boolean> => {
  const from = standing.day;
  if (untilMs <= dayStart(frame, from)) return true;
  const cutsMs = dayBuckets(frame, from, localDay(frame, untilMs - 1)).startsMs;
  const stretches = { cutsMs, untilMs, isOfActive: true };
  if (!areDivisible(stretches)) return false;
  const sumsOf = (day: number): DaySums => {
    let sums = days.get(day);
    if (!sums) days.set(day, (sums = new DaySums(day)));
    return sums;
  };
  await eachRolledPlayer(work, rolled, stretches, ({ who, size, stretches: those, counts }) => {
    if (size === 0) return;
    const no = standing.numberOf(who);
    let before = no === undefined ? NEVER : standing.lastOf(no);
    const first = before === NEVER ? from + those[0]! : standing.first[no!]!;
    for (let i = 0; i < size; i++) {
      const day = from + those[i]!;
      sumsOf(day).add({ before, first, events: counts[i]! });
      before = day;
    }
    if (no !== undefined) standing.set(no, before, first);
  });
  return true;
};

const readClosed = async (
  { db }: Work,
  frame: Frame,
  { before, most }: { before: number; most: number | null },
): Promise<Map<number, DaySums>> => {
  const { rows } = await sql<{ day: number; document: Uint8Array }>`
    select day, document from analytics_closed_days where project_id = ${frame.projectId}::uuid
      and calendar = ${calendarOf(frame)} and day < ${before}::int
    order by day limit ${most}::int`.execute(db);
  return new Map(rows.map(({ day, document }) => [day, DaySums.read(day, document)]));
};

type Closed = { rolled: Rolled; day: number; days: Days; standing?: Standing | undefined };

/** Reads the days before the newest one up to `until` from which on days can be added up. */
const readUntil = async (work: Work, frame: Frame, until: number): Promise<Closed | undefined> => {
  const rolled = await openRolled(work, frame);
  const found = rolled && (await findDay(work, { frame, rolled }, until));
  if (!found || until - found.day > QUESTION_DAYS_MAX) return undefined;
  const days = await readClosed(work, frame, { before: found.day, most: CLOSED_DAYS_MAX + 1 });
  return days.size > CLOSED_DAYS_MAX ? undefined : { rolled, ...found, days };
};

const COMPUTED = localKey("days of a project", () => new Map<string, Promise<unknown>>());

/** Computes what several parts of a question need once. */
const once = <T>(work: Work, key: string, compute: () => Promise<T>): Promise<T> => {
  const computed = work.local.get(COMPUTED);
  let computing = computed.get(key);
  if (!computing) computed.set(key, (computing = compute()));
  return computing as Promise<T>;
};

const computeDays = async (work: Work, frame: Frame, untilMs: number): Promise<Days | undefined> => {
  const closed = await closedUntil(work, frame, localDay(frame, untilMs));
  if (!closed) return undefined;
  const { rolled, day } = closed;
  const standing = closed.standing ?? (await readStanding(work, placeOf(frame), day));
  // It changes as days are added.
  closed.standing = undefined;
  const days = new Map(closed.days);
  return (await addDays(work, { frame, rolled, standing, untilMs }, days)) ? days : undefined;
};

const nameOf = ({ projectId, asOfMs, ...frame }: Frame): string =>
  `${projectId} ${calendarOf(frame)} ${asOfMs}`;

const closedUntil = (work: Work, frame: Frame, until: number): Promise<Closed | undefined> =>
  once(work, `closed ${nameOf(frame)} ${until}`, () => readUntil(work, frame, until));

/**
 * Returns the local days before an instant, added up, as far as anybody was active; undefined where nobody has
 * closed days of this calendar yet. The transaction must see one snapshot.
 */
export const daysUntil = async (work: Work, frame: Frame, untilMs: number): Promise<Days | undefined> => {
  const endMs = Math.min(frame.asOfMs, untilMs);
  const end = localDay(frame, endMs);
  const computed = (ms: number) =>
    once(work, `until ${nameOf(frame)} ${ms}`, () => computeDays(work, frame, ms));
  if (dayStart(frame, end) !== endMs) return computed(endMs);
  // Whole days are the same whatever comes after them, and need nobody's last day where all are closed.
  const closed = await closedUntil(work, frame, localDay(frame, frame.asOfMs));
  const days = closed && closed.day >= end ? closed.days : await computed(frame.asOfMs);
  return days && new Map([...days].filter(([day]) => day < end));
};

/** Players of a cohort who were active `k` periods later. */
export type DayCell = { cohort: number; k: number; players: number; events: number };

/**
 * Calls `take` with players of a cohort, by the number of its period, who were active `k` periods later, and
 * with their events: often for one cell, each player once.
 * @param periods those of the range and the ones behind it
 * @returns false where the days are not added up, or the range begins or ends within one
 */
export const eachCohortCell = async (
  work: Work,
  { frame, range }: { frame: Frame; range: Range },
  { unit, days: startsMs }: Periods,
  take: (cell: DayCell) => void,
): Promise<boolean> => {
  const { startMs, endMs, firstDay, lastDay } = range;
  const isWhole = dayStart(frame, firstDay) === startMs && dayStart(frame, lastDay + 1) === endMs;
  const days = isWhole ? await daysUntil(work, frame, frame.asOfMs) : undefined;
  if (!days) return false;
  const counted = ({ day: "players", week: frame.weekStart, month: "month" } as const)[unit];
  for (const [day, sums] of days) {
    if (day < firstDay) continue;
    const period = periodAt({ startsMs }, day);
    for (const [first, those] of sums.cohorts) {
      if (first < firstDay || first > lastDay) continue;
      const cohort = periodAt({ startsMs }, first);
      take({ cohort, k: period - cohort, players: those[counted], events: those.events });
    }
  }
  return true;
};

const writeDays = async (
  { db }: Work,
  { projectId, calendar }: Place,
  days: ReadonlyMap<number, DaySums>,
): Promise<void> => {
  const written = [...days].map(([d, sums]) => ({ d, b: Buffer.from(sums.write()).toString("base64") }));
  for (const text of tableTexts(written, STATEMENT_LENGTH))
    await sql`
      insert into analytics_closed_days (project_id, calendar, day, document)
      select ${projectId}::uuid, ${calendar}, d, decode(b, 'base64')
      from json_to_recordset(${text}::json) as x(d int, b text)
      on conflict (project_id, calendar, day) do update set document = excluded.document`.execute(db);
};

/** Keeps a standing of a day, and of those before it fewer. */
const writeStanding = async (
  { db }: Work,
  { projectId, calendar }: Place,
  standing: Standing,
): Promise<void> => {
  const { day } = standing;
  const chunks = Math.max(1, Math.ceil(standing.last.length / CHUNK_PLAYERS));
  const written = Array.from({ length: chunks }, (_, c) => ({
    c,
    b: Buffer.from(standing.write(c)).toString("base64"),
  }));
  for (const text of tableTexts(written, STATEMENT_LENGTH))
    await sql`
      insert into analytics_standings (project_id, calendar, day, chunk, document)
      select ${projectId}::uuid, ${calendar}, ${day}::int, c, decode(b, 'base64')
      from json_to_recordset(${text}::json) as x(c int, b text)`.execute(db);
  await sql`
    delete from analytics_standings where project_id = ${projectId}::uuid and calendar = ${calendar}
      and day < ${day - RECENT_DAYS}::int and day % ${sql.lit(SPARSE_DAYS)} <> 0`.execute(db);
};

const forgetSince = async ({ db }: Work, { projectId, calendar }: Place, day: number): Promise<void> => {
  await sql`
    with later as (
      delete from analytics_standings where project_id = ${projectId}::uuid and calendar = ${calendar}
        and day > ${day}::int)
    delete from analytics_closed_days where project_id = ${projectId}::uuid and calendar = ${calendar}
      and day >= ${day}::int`.execute(db);
};

/** Opens days again that were over, since an event of that time has come or gone. */
export const reopenDays = async (work: Work, projectId: string, sinceMs: number): Promise<void> => {
  const { rows } = await sql<{ calendar: string }>`
    select distinct calendar from analytics_standings where project_id = ${projectId}::uuid`.execute(work.db);
  for (const { calendar } of rows) {
    const [timezone, dayStartsMs] = JSON.parse(calendar) as [string, number];
    const day = localDay({ timezone, dayStartsMs, weekStart: "monday" }, sinceMs);
    await forgetSince(work, { projectId, calendar }, day);
  }
};

/** The day of the first event; undefined without any. */
const findFirstDay = async (work: Work, { frame, rolled }: Asking): Promise<number | undefined> => {
  const firstMs = await findFirstTime(work, rolled);
  return firstMs === undefined ? undefined : localDay(frame, firstMs);
};

/** The next day after one of which there will be a standing. */
const nextOf = (day: number, last: number): number => {
  const recent = last - RECENT_DAYS;
  if (day >= recent) return day + 1;
  const step = Math.max(SPARSE_DAYS, Math.min((last - day) >> 3, STEP_DAYS_MAX));
  return Math.min(Math.floor((day + step) / SPARSE_DAYS) * SPARSE_DAYS, recent);
};

/** The first day from one on of which there may be an event; undefined without any. */
const findActiveDay = async ({ db }: Work, frame: Frame, from: number): Promise<number | undefined> => {
  const { rows } = await sql<{ day: number | null }>`
    select min(day) as day from analytics_days where project_id = ${frame.projectId}::uuid
      and event_type = '' and day >= ${Math.floor(dayStart(frame, from) / DAY_MS)}::int`.execute(db);
  const day = rows[0]!.day;
  return day === null ? undefined : Math.max(from, localDay(frame, day * DAY_MS));
};

type Closing = Asking & { standing: Standing; last: number };

/**
 * Moves a standing on, but not behind `last`, and adds up the days up to there.
 * @returns undefined where those cannot be told apart
 */
const closeNext = async (
  work: Work,
  { frame, rolled, standing, last }: Closing,
): Promise<Map<number, DaySums> | undefined> => {
  const days = new Map<number, DaySums>();
  const from = Math.min((await findActiveDay(work, frame, standing.day)) ?? last, last);
  // Questions begin where somebody was active again, and not long before.
  const hasMoved = from > standing.day;
  standing.day = from;
  const add = async (next: number): Promise<boolean> => {
    const asked = { frame, rolled, standing, untilMs: dayStart(frame, next) };
    const areTold = await addDays(work, asked, days);
    if (areTold) standing.day = next;
    return areTold;
  };
  if (hasMoved || (await add(Math.min(nextOf(from, last), last)))) return days;
  const isLonely = ((await findActiveDay(work, frame, from + 2)) ?? last) >= from + LONELY_DAYS;
  return isLonely && (await add(from + 1)) ? days : undefined;
};

/** Closes days of one calendar. Returns whether there are more. */
const closeSomeOf = async (work: Work, frame: Frame): Promise<boolean> => {
  const rolled = await openRolled(work, frame);
  if (!rolled) return false;
  const last = Math.min(localDay(frame, frame.asOfMs), settledUntil(frame, rolled));
  let standing = await findStanding(work, { frame, rolled }, last);
  if (!standing) {
    const first = await findFirstDay(work, { frame, rolled });
    if (first === undefined) return false;
    standing = new Standing(first);
  }
  if (standing.day >= last) return false;
  // What was closed before players were merged.
  await forgetSince(work, placeOf(frame), standing.day);
  const days = await closeNext(work, { frame, rolled, standing, last });
  if (!days) return false;
  await writeDays(work, placeOf(frame), days);
  await writeStanding(work, placeOf(frame), standing);
  return standing.day < last;
};

/** Zones beside its own that a project's days are closed in: the first ones that were asked about. */
export const ZONES_MAX = 5;

/** Has days of a project closed in a zone, too, from the next step on. */
export const addZone = async ({ db }: Work, projectId: string, timezone: string): Promise<void> => {
  await sql`
    insert into analytics_zones (project_id, timezone)
    select ${projectId}::uuid, ${timezone} where (
      select count(*) from analytics_zones where project_id = ${projectId}::uuid) < ${sql.lit(ZONES_MAX)}
    on conflict do nothing`.execute(db);
};

/**
 * Closes days of a project that are over: those of its own zone, and of others that were asked about. In the
 * same transaction nobody else may move the project's rollups on.
 * @returns whether there is more to do at once
 */
export const closeSome = async (
  work: Work,
  projectId: string,
  { asOfMs, restMs }: { asOfMs: number; restMs: number },
): Promise<boolean> => {
  const { db } = work;
  const nowMs = work.serverNow.getTime();
  const { rows } = await sql<ProjectDays & { zones: string[] }>`
    select p.timezone, p.settings, array(
      select z.timezone from analytics_zones z where z.project_id = p.id
      order by z.timezone limit ${sql.lit(ZONES_MAX)}) as zones
    from projects p join analytics_rollups r on r.project_id = p.id
    where p.id = ${projectId}::uuid and (r.closed_at is null
      or r.closed_at <= ${new Date(nowMs - restMs).toISOString()}
      or exists (select from analytics_zones z where z.project_id = p.id and z.is_new))`.execute(db);
  if (!rows[0]) return false;
  const { zones, ...project } = rows[0];
  const asOf = { projectId, asOfMs, aheadMs: work.now.getTime() - nowMs };
  const frames = [...new Set([project.timezone, ...zones])].map((timezone): Frame => ({
    ...dayFrame(project, { timezone }),
    ...asOf,
  }));
  const kept = JSON.stringify(frames.map(calendarOf));
  for (const table of ["analytics_closed_days", "analytics_standings"])
    await sql`delete from ${sql.table(table)} where project_id = ${projectId}::uuid and calendar not in (
      select json_array_elements_text(${kept}::json))`.execute(db);
  let isMore = false;
  for (const frame of frames) isMore = (await closeSomeOf(work, frame)) || isMore;
  if (isMore) return true;
  await sql`
    with known as (
      update analytics_zones set is_new = false where project_id = ${projectId}::uuid and is_new)
    update analytics_rollups set closed_at = ${work.serverNow.toISOString()}
    where project_id = ${projectId}::uuid`.execute(db);
  return false;
};

/** Adds up closed days anew, and returns those that are stored otherwise, as questions would read them. */
export const verifyDays = async (
  work: Work,
  projectId: string,
): Promise<{ day: number; timezone: string }[]> => {
  const { rows } = await sql<{ calendar: string }>`
    select distinct calendar from analytics_closed_days where project_id = ${projectId}::uuid`.execute(
    work.db,
  );
  const wrong: { day: number; timezone: string }[] = [];
  for (const { calendar } of rows) {
    const [timezone, dayStartsMs] = JSON.parse(calendar) as [string, number];
    const asOfMs = work.now.getTime();
    const frame: Frame = { projectId, timezone, dayStartsMs, weekStart: "monday", asOfMs, aheadMs: 0 };
    const rolled = await openRolled(work, frame);
    const closed = rolled && (await findStanding(work, { frame, rolled }, localDay(frame, asOfMs)));
    const first = closed && (await findFirstDay(work, { frame, rolled }));
    if (first === undefined) continue;
    const last = closed!.day;
    const found = await readClosed(work, frame, { before: last, most: null });
    const standing = new Standing(first);
    while (standing.day < last) {
      const expected = await closeNext(work, { frame, rolled: rolled!, standing, last });
      if (!expected) break;
      for (const [day, sums] of expected) {
        if (!isSame(found.get(day), sums)) wrong.push({ day, timezone });
        found.delete(day);
      }
    }
    for (const day of found.keys()) wrong.push({ day, timezone });
  }
  return wrong;
};
