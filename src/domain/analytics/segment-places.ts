import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import { type Buckets, dayBuckets } from "./buckets.ts";
import type { Frame } from "./range.ts";
import { type Person, type Rolled } from "./rollups/rolled.ts";
import { eachRolledPlayer, type RolledPlayer } from "./rollups/players.ts";
import { areDivisible } from "./rollups/quarters.ts";
import { ENGAGEMENT_DAYS, KNOWN_DAYS, PAUSE_DAYS, type SegmentGroup, WINDOW_DAYS } from "./segment-days.ts";

/** Whose segments: of players with an event before `untilMs`, by the days up to `lastDay`. */
export type At = { lastDay: number; untilMs: number };

type Standing = { xp: number; level: number };

/** A player with the keys of the segments that he is in, and the XP and level of today. */
export type Place = { who: RolledPlayer["who"]; keys: Record<SegmentGroup, string> } & Standing;

const NUMBER_BYTES = 16;

/** XP and levels of today: by number, and of persons. */
const readStandings = async (
  { db }: Work,
  { projectId, persons }: Rolled,
): Promise<(who: RolledPlayer["who"]) => Standing> => {
  const { rows } = await sql<{ packed: Uint8Array }>`
    select string_agg(int4send(n.no) || float8send(p.xp::float8) || int4send(p.level), '') as packed
    from analytics_players n join players p on p.project_id = n.project_id and p.id = n.player_id
    where n.project_id = ${projectId}::uuid group by n.no >> 12`.execute(db);
  const byNumber = new Map<number, Standing>();
  for (const { packed } of rows) {
    const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
    for (let at = 0; at < view.byteLength; at += NUMBER_BYTES)
      byNumber.set(view.getInt32(at), { xp: view.getFloat64(at + 4), level: view.getInt32(at + 12) });
  }
  const byPerson = new Map<Person, Standing>();
  if (persons.size > 0) {
    const found = await sql<{ id: string } & Standing>`
      select id::text as id, xp::float8 as xp, level from players where project_id = ${projectId}::uuid
        and id = any(${`{${[...persons.keys()].join(",")}}`}::uuid[])`.execute(db);
    for (const { id, xp, level } of found.rows) byPerson.set(persons.get(id)!, { xp, level });
  }
  return (who) => (typeof who === "number" ? byNumber.get(who)! : byPerson.get(who)!);
};

const lifecycleOf = (first: number, those: readonly number[]): string => {
  const last = those.at(-1) ?? -1;
  const back = (days: number): number => KNOWN_DAYS - 1 - days;
  if (first >= back(WINDOW_DAYS - 1)) return "new";
  if (last >= back(WINDOW_DAYS - 1)) {
    const firstIn = those.find((day) => day >= back(WINDOW_DAYS - 1))!;
    const before = those.findLast((day) => day < back(WINDOW_DAYS - 1));
    return before === undefined || firstIn - before >= PAUSE_DAYS ? "resurrected" : "active";
  }
  if (last >= back(13)) return "at_risk";
  return last >= back(29) ? "dormant" : "churned";
};

const engagementOf = (those: readonly number[]): string => {
  const days = those.filter((day) => day >= KNOWN_DAYS - ENGAGEMENT_DAYS && day < KNOWN_DAYS).length;
  if (days === 0) return "none";
  if (days <= 3) return "casual";
  if (days <= 11) return "regular";
  return days <= 19 ? "core" : "power";
};

const levelBandOf = (level: number): string => {
  if (level >= 50) return "50+";
  if (level >= 20) return "20-49";
  if (level >= 10) return "10-19";
  if (level >= 5) return "5-9";
  return level >= 2 ? "2-4" : "1";
};

/** Returns the band of an amount of XP, by how many of all have more. */
const xpBands = (amounts: readonly number[]): ((xp: number) => string) => {
  const sorted = Float64Array.from(amounts).toSorted();
  const everyone = sorted.length;
  const known = new Map<number, string>();
  const bandOf = (xp: number): string => {
    let [low, high] = [0, everyone];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle]! <= xp) low = middle + 1;
      else high = middle;
    }
    const better = everyone - low;
    if (better * 100 < everyone) return "top_1";
    if (better * 10 < everyone) return "top_10";
    if (better * 4 < everyone) return "top_25";
    return better * 2 < everyone ? "top_50" : "rest";
  };
  return (xp) => {
    let band = known.get(xp);
    if (band === undefined) known.set(xp, (band = bandOf(xp)));
    return band;
  };
};

const firstDayOf = ({ startsMs }: Buckets, firstMs: number): number =>
  startsMs.findLastIndex((start) => start <= firstMs);

/**
 * Returns the segments of every player with an event before `untilMs`, from rollups; undefined where days
 * divide quarters of an hour.
 */
export const placesFromRollups = async (
  work: Work,
  { frame, rolled }: { frame: Frame; rolled: Rolled },
  { lastDay, untilMs }: At,
): Promise<Place[] | undefined> => {
  // The last bucket is the day that is going on: it makes a player active, but is no day that counts.
  const buckets = dayBuckets(frame, lastDay - KNOWN_DAYS + 1, lastDay + 1);
  const stretches = { cutsMs: buckets.startsMs, untilMs, areCounted: false };
  if (!areDivisible(stretches)) return undefined;
  const found: { who: RolledPlayer["who"]; lifecycle: string; engagement: string }[] = [];
  await eachRolledPlayer(work, rolled, stretches, ({ who, firstMs, size, stretches: all }) => {
    if (firstMs >= untilMs) return;
    const those = [...all.subarray(0, size)];
    const lifecycle = lifecycleOf(firstDayOf(buckets, firstMs), those);
    found.push({ who, lifecycle, engagement: engagementOf(those) });
  });
  const standingOf = await readStandings(work, rolled);
  const standings = found.map(({ who }) => standingOf(who));
  const bandOf = xpBands(standings.map(({ xp }) => xp));
  return found.map(({ who, lifecycle, engagement }, i) => {
    const { xp, level } = standings[i]!;
    return { who, xp, level, keys: { lifecycle, engagement, level: levelBandOf(level), xp: bandOf(xp) } };
  });
};
