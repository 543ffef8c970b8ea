import { sql } from "kysely";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import { type CompiledQuest, versionOf } from "../../evaluation/quests/compile.ts";
import { endOf } from "../../evaluation/quests/context.ts";
import type { QuestRow, StoredState } from "../../evaluation/quests/row.ts";
import type { RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import type { Steps } from "../../kernel/slices.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { QUEST_ROW_JSON, readQuestRow } from "../../progression/parts/quests.ts";
import { type CounterStarts, isSameCounter, type Owner, storedCounterById } from "../counters-without.ts";
import { openReplay, type Played, type PlayedCycle } from "./replay.ts";
import { remainderOf } from "../read-record.ts";
import type { CausedEvent, QuestOutcome, RevertedEvent } from "../record.ts";
import type { HistoryEvent } from "../../rules/insight/history.ts";

type Known = { quest: CompiledQuest; version: CompiledQuest; rows: readonly QuestRow[]; nowMs: number };

const doneIn = ({ steps }: Pick<QuestRow, "steps">): Map<string, number> =>
  new Map(
    Object.entries(steps).flatMap(([key, { doneMs }]): [string, number][] =>
      doneMs === undefined ? [] : [[key, doneMs]],
    ),
  );

/** The state of a row once what is over by now has expired. */
const settledState = ({ quest, nowMs }: Known, row: QuestRow): StoredState =>
  endOf(quest, row) <= nowMs ? "EXPIRED" : row.state;

const isSameState = (known: Known, stored: QuestRow, played: QuestRow): boolean => {
  if (stored.completedMs !== played.completedMs) return false;
  // Claims are not among the events.
  return stored.state === "CLAIMED" || settledState(known, stored) === played.state;
};

const sameSteps = (a: QuestRow, b: QuestRow): boolean => {
  const [mine, theirs] = [doneIn(a), doneIn(b)];
  return mine.size === theirs.size && [...mine].every(([key, doneMs]) => theirs.get(key) === doneMs);
};

/** A count of nothing is as good as none: reverts leave such. */
const meaning = (counts: PlayedCycle["counts"] = {}): string =>
  JSON.stringify(
    Object.entries(counts)
      .filter(([, count]) => count !== 0 && !(Array.isArray(count) && count[0] === 0 && count[1] === 0))
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );

const isReproduced = (known: Known, { player }: Owner, stored: QuestRow, played: PlayedCycle): boolean =>
  stored.startedMs === played.row.startedMs &&
  isSameState(known, stored, played.row) &&
  sameSteps(stored, played.row) &&
  (settledState(known, stored) !== "IN_PROGRESS" ||
    meaning(player.doc.q?.[stored.id]) === meaning(played.counts));

/** Returns whether the player's events alone give what is stored. */
const isExplained = (known: Known, owner: Owner, { cycles, counters }: Played): boolean =>
  cycles.size === known.rows.length &&
  known.rows.every((row) => {
    const played = cycles.get(row.cycleKey);
    return played !== undefined && isReproduced(known, owner, row, played);
  }) &&
  [...counters].every(([id, state]) => isSameCounter(state, storedCounterById(owner, id)));

/** Whether a cycle has something without the events that it does not have with them. */
const isFurther = (all: QuestRow, rest: QuestRow): boolean => {
  const done = doneIn(all);
  const isNew = [...doneIn(rest).keys()].some((key) => !done.has(key));
  return isNew || (rest.completedMs !== null && all.completedMs === null);
};

const NEVER: Pick<QuestRow, "state" | "percent" | "steps"> = { state: "RESET", percent: 0, steps: {} };
const OPEN = { expiresMs: null, completedMs: null, claimedMs: null, claimUntilMs: null };

const claimedOr = (stored: QuestRow, { completedMs, state, claimedMs }: QuestRow) => {
  const isClaimed = stored.state === "CLAIMED" && completedMs !== null;
  return isClaimed
    ? { state: stored.state, claimedMs: claimedMs ?? stored.claimedMs }
    : { state, claimedMs: null };
};

const NO_STEPS: Pick<QuestRow, "steps"> = { steps: {} };

const isCompleted = (row: QuestRow | undefined): boolean => row !== undefined && row.completedMs !== null;

const rewardsLost = (
  { version }: Known,
  stored: QuestRow,
  { all, rest }: { all: QuestRow; rest: QuestRow | undefined },
): Map<string, RewardBundle> => {
  const [before, after] = [doneIn(all), doneIn(rest ?? NO_STEPS)];
  const lost = new Map<string, RewardBundle>();
  for (const { definition } of version.steps) {
    const { key, rewards } = definition;
    if (rewards && before.has(key) && !after.has(key)) lost.set(`q:${stored.id}:s:${key}`, rewards);
  }
  const isLost = stored.claimedMs !== null && !isCompleted(rest);
  if (!rest && stored.isPaid) lost.set(`q:${stored.id}:start`, {});
  if (isLost) lost.set(`q:${stored.id}:complete`, version.definition.rewards);
  return lost;
};

/** What players have submitted for the steps that they still come to stays as it is. */
const withSubmitted = ({ version }: Known, stored: QuestRow, steps: QuestRow["steps"]): QuestRow["steps"] =>
  Object.fromEntries(
    Object.entries(steps).map(([key, played]) => {
      const kind = version.steps.find(({ definition }) => definition.key === key)?.definition.kind;
      const known = stored.steps[key];
      if (kind === "EVENT" || kind === "STATE" || !known) return [key, played];
      const { doneMs: _done, ...open } = known;
      const kept = played.doneMs === undefined ? open : known;
      return [key, played.startMs === undefined ? kept : { ...kept, startMs: played.startMs }];
    }),
  );

type Cycle = { stored: QuestRow; all: PlayedCycle; rest: PlayedCycle | undefined };

const withoutEvents = (known: Known, { stored, all, rest }: Cycle) => {
  const lost = rewardsLost(known, stored, { all: all.row, rest: rest?.row });
  const rewarded = stored.rewarded.filter((key) => !lost.has(`q:${stored.id}:s:${key}`));
  const again = lost.size === 0 ? {} : { again: (stored.again ?? 0) + 1 };
  const base: QuestRow = { ...stored, ...again, rewarded, isChanged: true };
  if (!rest) {
    const { isPaid: _paid, ...unpaid } = base;
    return { row: { ...unpaid, ...NEVER, ...OPEN }, counts: undefined, lost };
  }
  const { startedMs, eventId, expiresMs, steps, percent, completedMs, claimUntilMs } = rest.row;
  const times = { startedMs, expiresMs, completedMs, claimUntilMs };
  const row = {
    ...base,
    ...times,
    ...(eventId === undefined ? {} : { eventId }),
    steps: withSubmitted(known, stored, steps),
    percent,
    ...claimedOr(stored, rest.row),
  };
  return { row, counts: row.state === "IN_PROGRESS" ? rest.counts : undefined, lost };
};

const differs = ({ all, rest }: Cycle): boolean =>
  rest === undefined ||
  all.row.state !== rest.row.state ||
  all.row.startedMs !== rest.row.startedMs ||
  all.row.eventId !== rest.row.eventId ||
  all.row.percent !== rest.row.percent ||
  !sameSteps(all.row, rest.row) ||
  meaning(all.counts) !== meaning(rest.counts);

type Differing = Known & {
  all: Played;
  rest: Played;
  /** All reverted events, with their times in ms. */
  reverted: ReadonlyMap<string, number>;
  /** Ids of those that have changed the quest. */
  by: ReadonlySet<string>;
  hasListeners: boolean;
};

/** Of states only the time is known at which they completed a cycle. */
const isByReverted = ({ reverted, all }: Differing, cycleKey: string, eventId: string): boolean => {
  const completedMs = all.cycles.get(cycleKey)!.row.completedMs;
  return (
    reverted.has(eventId) || (eventId === NIL_ID && [...reverted.values()].some((at) => at === completedMs))
  );
};

const leftOf = (
  of: Differing,
  lost: ReadonlyMap<string, RewardBundle>,
  cycles: readonly Cycle[],
): string[] => {
  const { quest, all, rest, reverted } = of;
  const giverOf = new Map([...all.given].map(([key, { eventId }]) => [key, eventId]));
  const parts = cycles.flatMap(({ stored, all: { row } }) =>
    [...lost].flatMap(([key, bundle]) => {
      if (!key.startsWith(`q:${stored.id}:`)) return [];
      const giver = giverOf.get(key.replace(stored.id, row.id)) ?? "";
      return remainderOf(bundle, reverted.has(giver));
    }),
  );
  const left = [...new Set(parts)].map((part) => `quest ${quest.key}: ${part} of its rewards`);
  const isFollowed = [...all.completedBy].some(
    ([cycleKey, id]) => !rest.completedBy.has(cycleKey) && !isByReverted(of, cycleKey, id),
  );
  if (isFollowed && of.hasListeners) left.push(`quest ${quest.key}: what followed its completion`);
  return left;
};

const completerOf = ({ completedBy }: Played, { cycleKey }: QuestRow): string | undefined => {
  const id = completedBy.get(cycleKey);
  return id === NIL_ID ? undefined : id;
};

/** Cycles that follow one another end with the last one that has begun. */
const latestOf = ({ version, rows, rest }: Differing): QuestRow | undefined => {
  if (version.definition.repeat.mode !== "UNLIMITED") return undefined;
  return rows.findLast(({ cycleKey }) => rest.cycles.has(cycleKey)) ?? rows[0]!;
};

/** Compares what all events give with what they give without the reverted ones. */
const outcomeOf = (of: Differing): QuestOutcome => {
  const { quest, rows, all, rest, by } = of;
  const cycles = rows.map((stored): Cycle => {
    const [played, left] = [all.cycles.get(stored.cycleKey)!, rest.cycles.get(stored.cycleKey)];
    return { stored, all: played, rest: left };
  });
  const nothing = {
    quest,
    by,
    rows: [],
    counters: rest.counters,
    latest: undefined,
    fewer: 0,
    lastCompletedMs: null,
    completions: [],
    lost: new Set<string>(),
  };
  // A revert takes back, and gives nothing.
  if (cycles.some((one) => one.rest && isFurther(one.all.row, one.rest.row)))
    return {
      ...nothing,
      left: [`quest ${quest.key}: it would be further without the event, and stays as it is`],
    };
  const without = cycles.map((cycle) => ({ ...withoutEvents(of, cycle), cycle }));
  const lost = new Map(without.flatMap((one) => [...one.lost]));
  const fewer = (all.latest?.completions ?? 0) - (rest.latest?.completions ?? 0);
  const changed = without.filter(({ cycle }) => differs(cycle));
  return {
    quest,
    by,
    rows: changed.map(({ row, counts }) => ({ row, counts })),
    counters: rest.counters,
    latest: latestOf(of),
    fewer,
    lastCompletedMs: rest.latest?.lastCompletedMs ?? null,
    completions: without.flatMap(({ row, cycle: { stored } }) =>
      stored.completedMs === null
        ? []
        : [
            {
              id: stored.id,
              beforeMs: stored.completedMs,
              afterMs: row.completedMs,
              beforeBy: completerOf(all, stored),
              afterBy: completerOf(rest, stored),
            },
          ],
    ),
    lost: new Set(lost.keys()),
    left: leftOf(of, lost, cycles),
  };
};

/** The events of one player that are reverted together, with what they have emitted. */
type Parts = readonly { event: RevertedEvent; isOwn: boolean; own: { emitted: readonly CausedEvent[] } }[];

/** Maximum cycles of one quest that are played again; a quest with more keeps its progress. */
const CYCLES_MAX = 100;
/** Maximum cycles that are read for one revert; quests beyond them keep their progress. */
const CYCLES_READ_MAX = 5_000;

/** The quests that events may have changed, with the ids of these. */
type Touched = Map<CompiledQuest, Set<string>>;

const touchedBy = ({ quests }: ProjectPlan, player: PlayerState, parts: Parts): Touched => {
  const touched: Touched = new Map();
  const note = (quest: CompiledQuest | undefined, id: string): void => {
    if (quest && player.quests.has(quest.key))
      touched.set(quest, (touched.get(quest) ?? new Set<string>()).add(id));
  };
  for (const { event, isOwn, own } of parts) {
    if (isOwn) for (const quest of quests.forEvent(event.type)) note(quest, event.id);
    for (const { type, data } of own.emitted)
      if (type.startsWith("quest.")) note(quests.byKey.get(String(data["questKey"])), event.id);
  }
  return touched;
};

type Wanted = { player: PlayerState; touched: Touched; fromMs: number };

/** Cycles by player and key of the quest, oldest first. */
type CyclesOf = ReadonlyMap<string, readonly QuestRow[]>;

const nameOf = (playerId: string, questKey: string): string => `${playerId} ${questKey}`;

/** Reads the cycles that were running at the times of the events, and those that followed. */
const readCycles = async ({ db }: Work, projectId: string, wanted: readonly Wanted[]): Promise<CyclesOf> => {
  const of = wanted.flatMap(({ player: { id: i }, touched, fromMs }) =>
    [...touched.keys()].map(({ key: k }) => ({ i, k, t: new Date(fromMs).toISOString() })),
  );
  if (of.length === 0) return new Map();
  const { rows } = await sql<{ i: string; k: string; row: unknown }>`
    select w.i, w.k, s.row
    from json_to_recordset(${JSON.stringify(of)}::json) as w(i uuid, k text, t timestamptz)
    cross join lateral (
      select s.started_at, s.cycle_key, ${QUEST_ROW_JSON} as row from player_quests s
      where s.project_id = ${projectId} and s.player_id = w.i and s.quest_key = w.k
        and s.state <> 'RESET'
        and s.started_at >= coalesce((
          select max(b.started_at) from player_quests b
          where b.project_id = ${projectId} and b.player_id = w.i and b.quest_key = w.k
            and b.started_at < w.t and b.state <> 'RESET'), '-infinity')
      order by s.started_at, length(s.cycle_key), s.cycle_key limit ${CYCLES_MAX + 1}) s
    order by w.i, w.k, s.started_at, length(s.cycle_key), s.cycle_key
    limit ${CYCLES_READ_MAX + 1}`.execute(db);
  const read = await mapInSlices(rows, ({ i, k, row }) => ({ name: nameOf(i, k), row: readQuestRow(row) }));
  const found = Map.groupBy(read, ({ name }) => name);
  if (rows.length > CYCLES_READ_MAX) found.delete(read.at(-1)!.name);
  return new Map([...found].map(([name, cycles]) => [name, cycles.map(({ row }) => row)]));
};

/** What is found about a player's quests. */
export type QuestsWithout = {
  outcomes: readonly QuestOutcome[];
  /** Keys of the quests of which the events are known to explain everything. */
  known: ReadonlySet<string>;
  /** Keys of the quests of all cycles that were read, by the id of the row. */
  keys: ReadonlyMap<string, string>;
};

export const NO_QUESTS: QuestsWithout = { outcomes: [], known: new Set(), keys: new Map() };

/** Finds out what a player's quests are without events, from the player's others. */
export type QuestGathering = {
  visit(event: HistoryEvent): Steps<void>;
  /** To be called after the last event. */
  result(): Steps<QuestsWithout>;
};

type Gathering = {
  plan: ProjectPlan;
  player: PlayerState;
  parts: Parts;
  starts: CounterStarts;
  nowMs: number;
};

type QuestPlayer = Pick<Gathering, "player" | "parts">;

/** Reads the stored cycles of all players' quests that the events may have changed. */
export const readQuestCycles = (
  work: Work,
  plan: ProjectPlan,
  players: readonly QuestPlayer[],
): Promise<CyclesOf> => {
  if (plan.quests.byKey.size === 0) return Promise.resolve(new Map());
  const wanted = players.map(({ player, parts }): Wanted => {
    const fromMs = Math.min(...parts.map(({ event: { at } }) => at));
    return { player, fromMs, touched: touchedBy(plan, player, parts) };
  });
  return readCycles(work, plan.projectId, wanted);
};

/**
 * Opens playing the player's events again for each quest that the reverted ones may have changed: with these
 * and without them. Undefined where there is none. What the events do not explain, such as progress that
 * requests and rules have added, or cycles of several versions, is left out of the result.
 */
export const openQuests = (gathering: Gathering, cycles: CyclesOf): QuestGathering | undefined => {
  const { plan, player, parts } = gathering;
  const keys = new Map<string, string>();
  const replays = [...touchedBy(plan, player, parts)].flatMap(([quest, by]) => {
    const rows = cycles.get(nameOf(player.id, quest.key)) ?? [];
    for (const { id } of rows) keys.set(id, quest.key);
    const opened = openBoth(gathering, quest, rows);
    return opened ? [{ ...opened, by }] : [];
  });
  if (replays.length === 0) return undefined;
  return {
    *visit(event) {
      for (const { all, rest } of replays) {
        all.visit(event);
        rest.visit(event);
        yield;
      }
    },
    *result() {
      const outcomes: QuestOutcome[] = [];
      for (const one of replays) {
        yield;
        const outcome = one.result(one.by);
        if (outcome) outcomes.push(outcome);
      }
      return { outcomes, known: new Set(outcomes.map(({ quest }) => quest.key)), keys };
    },
  };
};

const openBoth = (
  { plan, player, parts, starts, nowMs }: Gathering,
  quest: CompiledQuest,
  rows: readonly QuestRow[],
) => {
  const [first] = rows;
  const version = first && versionOf(quest, first.version);
  if (!version || rows.length > CYCLES_MAX || rows.some((row) => row.version !== first.version))
    return undefined;
  const owner: Owner = { player, project: plan };
  const replaying = { owner, version, rows, starts, nowMs };
  const reverted = new Map(parts.map(({ event: { id, at } }) => [id, at]));
  const all = openReplay({ ...replaying, without: new Map() });
  const rest = openReplay({ ...replaying, without: reverted, after: all });
  const known = { quest, version, rows, nowMs };
  const hasListeners = plan.hasListeners("quest.completed");
  return {
    all,
    rest,
    result: (by: ReadonlySet<string>): QuestOutcome | undefined => {
      const [played, left] = [all.result(), rest.result()];
      if (!isExplained(known, owner, played)) return undefined;
      return outcomeOf({ ...known, all: played, rest: left, reverted, by, hasListeners });
    },
  };
};
