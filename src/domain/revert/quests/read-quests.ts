import { sql } from "kysely";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import { type CompiledQuest, versionOf } from "../../evaluation/quests/compile.ts";
import type { QuestRow } from "../../evaluation/quests/row.ts";
import type { Pieces } from "../../kernel/pace.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import type { StepBudget } from "../../kernel/step-budget.ts";
import type { Work } from "../../kernel/work.ts";
import type { HistoryEvent } from "../../rules/insight/history.ts";
import { QUEST_ROW_JSON, readQuestRow, type StoredQuestRow } from "../../progression/parts/quests.ts";
import type { Owner } from "../counters-without.ts";
import type { CausedEvent, QuestOutcome, RevertedEvent } from "../record.ts";
import type { CounterStarts } from "../reverse-counters.ts";
import { isExplained, outcomeOf } from "./outcome.ts";
import { openReplay } from "./replay.ts";

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
  const { rows } = await sql<{ i: string; k: string; row: StoredQuestRow }>`
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
  visit(event: HistoryEvent, steps: StepBudget): Pieces<void>;
  /** To be called after the last event. */
  result(): Pieces<QuestsWithout>;
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
    *visit(event, steps) {
      for (const { all, rest } of replays) {
        all.visit(event, steps);
        rest.visit(event, steps);
        yield 0;
      }
    },
    *result() {
      const outcomes: QuestOutcome[] = [];
      for (const one of replays) {
        yield one.cost;
        const outcome = one.result(one.by);
        if (outcome) outcomes.push(outcome);
      }
      return { outcomes, known: new Set(outcomes.map(({ quest }) => quest.key)), keys };
    },
  };
};

/** Steps of comparing a cycle with what events give, and of each of its steps. */
const CYCLE_STEPS = 20;
const STEP_STEPS = 2;

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
    cost: rows.length * (CYCLE_STEPS + STEP_STEPS * version.steps.length),
    result: (by: ReadonlySet<string>): QuestOutcome | undefined => {
      const [played, left] = [all.result(), rest.result()];
      if (!isExplained(known, owner, played)) return undefined;
      return outcomeOf({ ...known, all: played, rest: left, reverted, by, hasListeners });
    },
  };
};
