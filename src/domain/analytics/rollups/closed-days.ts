import { sql } from "kysely";
import { periodAt } from "../events.ts";
import {
  type CalendarInterval,
  type DayFrame,
  dayBuckets,
  dayFrame,
  dayStart,
  type Frame,
  localDay,
  monthOf,
  type ProjectDays,
  type Range,
  type WeekStart,
  weekOf,
} from "../range.ts";
import { CHUNK_BITS, CHUNK_PLAYERS, VarintReader, VarintWriter, STATEMENT_LENGTH } from "./documents.ts";
import { areDivisible, eachRolledPlayer, eachFirstTime, type RolledPlayer } from "./players.ts";
import { openRolled, type Rolled } from "./rolled.ts";
import { tableTexts } from "../../kernel/json.ts";
import { localKey, type Work } from "../../kernel/work.ts";

/**
 * Local days that are over, added up, so that whoever opens the overview of a large game need not wait until
 * all that its players ever did is read. A player's day is counted by the active day before: distinct players
 * of several days are those whose active day before is earlier, each counted once, on the first of the days.
 * Of some days it is kept when each player had been active before, so that days since can be added up.
 */

/** Of days further back, only each 32nd keeps when players were active before. */
const RECENT_DAYS = 35;
const SPARSE_DAYS = 32;

/** Before any day: of a player without an active one. */
const NEVER = -(2 ** 31);

/** Players of one first day on another day; of how many that was the first active day of a week or month. */
type Cohort = { players: number; events: number; monday: number; sunday: number; month: number };

/** One local day: what players did, by the active day before, and by their first day. */
export class DaySums {
  events = 0;
  /** Players; new ones have no day before. */
  readonly gaps = new Map<number, number>();
  readonly cohorts = new Map<number, Cohort>();
  readonly #day: number;
  readonly #starts: { monday: number; sunday: number; month: number };

  constructor(day: number) {
    this.#day = day;
    this.#starts = { monday: weekOf(day, "monday"), sunday: weekOf(day, "sunday"), month: monthOf(day) };
  }

  add({ before, first, events }: { before: number; first: number; events: number }): void {
    this.events += events;
    this.gaps.set(before, (this.gaps.get(before) ?? 0) + 1);
    let cohort = this.cohorts.get(first);
    if (!cohort)
      this.cohorts.set(first, (cohort = { players: 0, events: 0, monday: 0, sunday: 0, month: 0 }));
    const { monday, sunday, month } = this.#starts;
    cohort.players++;
    cohort.events += events;
    if (before < monday) cohort.monday++;
    if (before < sunday) cohort.sunday++;
    if (before < month) cohort.month++;
  }

  write(): Uint8Array {
    const writer = new VarintWriter();
    writer.add(this.events);
    writer.add(this.gaps.size);
    for (const [before, players] of this.gaps) {
      writer.add(before === NEVER ? 0 : this.#day - before);
      writer.add(players);
    }
    for (const [first, { players, events, monday, sunday, month }] of this.cohorts)
      for (const number of [this.#day - first, players, events, monday, sunday, month]) writer.add(number);
    return writer.bytes;
  }

  static read(day: number, document: Uint8Array): DaySums {
    const sums = new DaySums(day);
    const reader = new VarintReader(document);
    sums.events = reader.next();
    for (let left = reader.next(); left > 0; left--) {
      const gap = reader.next();
      sums.gaps.set(gap === 0 ? NEVER : day - gap, reader.next());
    }
    while (!reader.isAtEnd) {
      const first = day - reader.next();
      const [players, events] = [reader.next(), reader.next()];
      const [monday, sunday, month] = [reader.next(), reader.next(), reader.next()];
      sums.cohorts.set(first, { players, events, monday, sunday, month });
    }
    return sums;
  }
}

/** Days by number, ascending, as far as anybody was active. */
export type Days = ReadonlyMap<number, DaySums>;

/** Local days, both of which are among them. */
export type Span = { first: number; last: number };

/** Returns how many players were active, and new, and how many events there were. */
export const countDays = (days: Days, { first, last }: Span) => {
  let [active, fresh, events] = [0, 0, 0];
  for (let day = first; day <= last; day++) {
    const sums = days.get(day);
    if (!sums) continue;
    events += sums.events;
    fresh += sums.gaps.get(NEVER) ?? 0;
    for (const [before, players] of sums.gaps) if (before < first) active += players;
  }
  return { active, fresh, events };
};

/** Returns how many players were new on any day up to one. */
export const countPlayers = (days: Days, last: number): number => {
  let players = 0;
  for (const [day, { gaps }] of days) if (day <= last) players += gaps.get(NEVER) ?? 0;
  return players;
};

/** Which players come to which cohort, by first days, and of what the columns are. */
type CohortSpans = { span: Span; unit: CalendarInterval; weekStart: WeekStart; periods: readonly number[] };

/**
 * Calls `take` with players of a cohort, by the number of its period, who were active `k` periods later, and
 * with their events: often for one cell, each player once.
 * @param periods first days of periods, the first of which has the span's first day
 */
export const eachCohortCell = (
  days: Days,
  { span, unit, weekStart, periods }: CohortSpans,
  take: (cell: { cohort: number; k: number; players: number; events: number }) => void,
): void => {
  const counted = unit === "day" ? "players" : unit === "week" ? weekStart : "month";
  for (const [day, { cohorts }] of days) {
    if (day < span.first) continue;
    const period = periodAt({ startsMs: periods }, day);
    for (const [first, sums] of cohorts) {
      if (first < span.first || first > span.last) continue;
      const cohort = periodAt({ startsMs: periods }, first);
      take({ cohort, k: period - cohort, players: sums[counted], events: sums.events });
    }
  }
};

/** When players were active before a day, and first, by number. */
class Standing {
  readonly day: number;
  last = new Int32Array(0);
  first = new Int32Array(0);

  constructor(day: number) {
    this.day = day;
  }

  lastOf(no: number): number {
    return this.last[no] ?? NEVER;
  }

  /** The number under which somebody is known; a person may have others that are not known. */
  numberOf(who: RolledPlayer["who"]): number | undefined {
    if (typeof who === "number") return who;
    return who.numbers.find((no) => this.lastOf(no) !== NEVER) ?? who.numbers[0];
  }

  set(no: number, last: number, first: number): void {
    if (no >= this.last.length) this.#grow(no);
    this.last[no] = last;
    this.first[no] = first;
  }

  #grow(no: number): void {
    const length = Math.max(2 * this.last.length, ((no >> CHUNK_BITS) + 1) << CHUNK_BITS);
    const [last, first] = [this.last, this.first];
    (this.last = new Int32Array(length).fill(NEVER)).set(last);
    (this.first = new Int32Array(length)).set(first);
  }

  /** By player of the chunk: 0, or how many days ago the last day is, and how many before that the first. */
  write(chunk: number, day: number): Uint8Array {
    const writer = new VarintWriter();
    for (let no = chunk << CHUNK_BITS; no < (chunk + 1) << CHUNK_BITS; no++) {
      const last = this.lastOf(no);
      writer.add(last === NEVER ? 0 : day - last);
      if (last !== NEVER) writer.add(last - this.first[no]!);
    }
    return writer.bytes;
  }

  read(chunk: number, document: Uint8Array): void {
    const reader = new VarintReader(document);
    for (let no = chunk << CHUNK_BITS; !reader.isAtEnd; no++) {
      const ago = reader.next();
      if (ago > 0) this.set(no, this.day - ago, this.day - ago - reader.next());
    }
  }
}

/** Days of what: data of zones change with the runtime. */
const calendarOf = ({ timezone, dayStartsMs }: DayFrame): string =>
  JSON.stringify([timezone, dayStartsMs, process.versions["tz"]]);

type Asking = { frame: Frame; rolled: Rolled };
type Place = { projectId: string; calendar: string };

const placeOf = (frame: Frame): Place => ({ projectId: frame.projectId, calendar: calendarOf(frame) });

const readStanding = async ({ db }: Work, { projectId, calendar }: Place, day: number): Promise<Standing> => {
  const standing = new Standing(day);
  const { rows } = await sql<{ chunk: number; document: Uint8Array }>`
    select chunk, document from analytics_standings where project_id = ${projectId}::uuid
      and calendar = ${calendar} and day = ${day}::int`.execute(db);
  for (const { chunk, document } of rows) standing.read(chunk, document);
  return standing;
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

/** Finds the newest day up to `until` from which on days can be added up; undefined where there is none. */
const findStanding = async (
  work: Work,
  { frame, rolled }: Asking,
  until: number,
): Promise<Standing | undefined> => {
  const place = placeOf(frame);
  for (let latest = Math.min(until, settledUntil(frame, rolled)); ;) {
    const { rows } = await sql<{ day: number | null }>`
      select max(day) as day from analytics_standings where project_id = ${place.projectId}::uuid
        and calendar = ${place.calendar} and day <= ${Math.min(latest, 2 ** 31 - 1)}::int`.execute(work.db);
    const day = rows[0]!.day;
    if (day === null) return undefined;
    const standing = await readStanding(work, place, day);
    latest = unitedUntil(rolled, standing);
    if (latest >= day) return standing;
  }
};

/** Adds up the days from that of a standing on, which moves on. Returns whether they could be told apart. */
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
  const sums = cutsMs.map((_, i) => new DaySums(from + i));
  await eachRolledPlayer(work, rolled, stretches, ({ who, size, stretches: those, counts }) => {
    if (size === 0) return;
    const no = standing.numberOf(who);
    let before = no === undefined ? NEVER : standing.lastOf(no);
    const first = before === NEVER ? from + those[0]! : standing.first[no!]!;
    for (let i = 0; i < size; i++) {
      sums[those[i]!]!.add({ before, first, events: counts[i]! });
      before = from + those[i]!;
    }
    if (no !== undefined) standing.set(no, before, first);
  });
  for (const [i, one] of sums.entries()) if (one.events > 0) days.set(from + i, one);
  return true;
};

const computeDays = async (work: Work, frame: Frame, untilMs: number): Promise<Days | undefined> => {
  const rolled = await openRolled(work, frame);
  if (!rolled) return undefined;
  const standing = await findStanding(work, { frame, rolled }, localDay(frame, untilMs));
  if (!standing) return undefined;
  const { rows } = await sql<{ day: number; document: Uint8Array }>`
    select day, document from analytics_closed_days where project_id = ${frame.projectId}::uuid
      and calendar = ${calendarOf(frame)} and day < ${standing.day}::int order by day`.execute(work.db);
  const days = new Map(rows.map(({ day, document }) => [day, DaySums.read(day, document)]));
  return (await addDays(work, { frame, rolled, standing, untilMs }, days)) ? days : undefined;
};

const COMPUTED = localKey("days of a project", () => new Map<string, Promise<Days | undefined>>());

/**
 * Returns the local days before an instant, added up, as far as anybody was active; undefined where nobody has
 * closed days of this calendar yet. The transaction must see one snapshot.
 */
export const daysUntil = async (work: Work, frame: Frame, untilMs: number): Promise<Days | undefined> => {
  const endMs = Math.min(frame.asOfMs, untilMs);
  const end = localDay(frame, endMs);
  // Whole days are the same whatever comes after them.
  const areWhole = dayStart(frame, end) === endMs;
  const readMs = areWhole ? frame.asOfMs : endMs;
  const computed = work.local.get(COMPUTED);
  const key = `${frame.projectId} ${calendarOf(frame)} ${frame.asOfMs} ${readMs}`;
  let reading = computed.get(key);
  if (!reading) computed.set(key, (reading = computeDays(work, frame, readMs)));
  const days = await reading;
  return days && areWhole ? new Map([...days].filter(([day]) => day < end)) : days;
};

/** As `daysUntil`, of all time, for cohorts of a range; undefined for one that begins or ends within a day. */
export const daysFor = async (work: Work, frame: Frame, range: Range): Promise<Days | undefined> => {
  const { startMs, endMs, firstDay, lastDay } = range;
  const isWhole = dayStart(frame, firstDay) === startMs && dayStart(frame, lastDay + 1) === endMs;
  return isWhole ? daysUntil(work, frame, frame.asOfMs) : undefined;
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
  day: number,
): Promise<void> => {
  const chunks = Math.max(1, Math.ceil(standing.last.length / CHUNK_PLAYERS));
  const written = Array.from({ length: chunks }, (_, c) => ({
    c,
    b: Buffer.from(standing.write(c, day)).toString("base64"),
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
  let firstMs = Infinity;
  await eachFirstTime(work, rolled, (ms) => void (firstMs = Math.min(firstMs, ms)));
  return firstMs === Infinity ? undefined : localDay(frame, firstMs);
};

/** The next day after one of which there will be a standing. */
const nextOf = (day: number, last: number): number =>
  day >= last - RECENT_DAYS ? day + 1 : (Math.floor(day / SPARSE_DAYS) + 1) * SPARSE_DAYS;

/** Closes days of one calendar. Returns whether there are more. */
const closeSomeOf = async (work: Work, frame: Frame): Promise<boolean> => {
  const rolled = await openRolled(work, frame);
  if (!rolled) return false;
  const place = placeOf(frame);
  const last = Math.min(localDay(frame, frame.asOfMs), settledUntil(frame, rolled));
  let standing = await findStanding(work, { frame, rolled }, last);
  if (!standing) {
    const first = await findFirstDay(work, { frame, rolled });
    if (first === undefined) return false;
    standing = new Standing(first);
  }
  if (standing.day >= last) return false;
  // What was closed before players were merged.
  await forgetSince(work, place, standing.day);
  const next = Math.min(nextOf(standing.day, last), last);
  const days = new Map<number, DaySums>();
  const isTold = await addDays(work, { frame, rolled, standing, untilMs: dayStart(frame, next) }, days);
  if (!isTold) return false;
  await writeDays(work, place, days);
  await writeStanding(work, place, standing, next);
  return next < last;
};

/** Zones beside its own that a project's days are closed in. */
const ZONES_MAX = 5;

/**
 * Closes days of a project that are over: those of its own zone, and of others that were asked about. In the
 * same transaction nobody else may move the project's rollups on.
 * @returns whether there is more to do at once
 */
export const closeSome = async (work: Work, projectId: string, asOfMs: number): Promise<boolean> => {
  const { db } = work;
  const { rows } = await sql<ProjectDays & { zones: string[] }>`
    select p.timezone, p.settings, array(
      select z.timezone from analytics_zones z where z.project_id = p.id
      order by z.asked_at desc limit ${sql.lit(ZONES_MAX)}) as zones
    from projects p where p.id = ${projectId}::uuid`.execute(db);
  if (!rows[0]) return false;
  const { zones, ...project } = rows[0];
  const asOf = { projectId, asOfMs, aheadMs: work.now.getTime() - work.serverNow.getTime() };
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
  return isMore;
};
