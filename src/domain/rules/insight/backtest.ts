import { sql } from "kysely";
import { z } from "zod";
import { StoredRule } from "../../evaluation/language/document.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import { compileRules } from "../../evaluation/running/compile.ts";
import { DESIGNERS } from "../../kernel/caller.ts";
import { notFound } from "../../kernel/errors.ts";
import { fnv1a, NIL_ID } from "../../kernel/ids.ts";
import { IsoTime } from "../../kernel/iso-time.ts";
import { nextSlice, Pace } from "../../kernel/slices.ts";
import { countRows, type Work } from "../../kernel/work.ts";
import { jobKind } from "../../long-work/project-jobs.ts";
import { loadPage } from "../../progression/load-states.ts";
import { readPlayersPage } from "../../progression/load.ts";
import { loadPlan } from "../../progression/plan.ts";
import {
  checkSpan,
  HISTORY_PAGE,
  type HistoryEvent,
  type HistorySpan,
  readHistories,
  replay,
  type Replay,
  ReplayState,
  resultOf,
  startOf,
} from "./history.ts";
import { findVersion } from "../lifecycle/publishing.ts";
import { problemsOf, refusal } from "../lifecycle/validate.ts";
import { findRule } from "../rules.ts";

/** Minimum number of events per statement, and of players whose events it looks for. */
const LEAST = 50;

type HistoriesOf = {
  projectId: string;
  /** Their ids, in the order in which their histories are taken. */
  playerIds: readonly string[];
  span: HistorySpan;
};

/**
 * Histories of many players, taken one after the other and read ahead together: the number of statements
 * depends on the number of events. Holds HISTORY_PAGE events at most.
 */
class Histories {
  readonly #work: Work;
  readonly #of: HistoriesOf;
  /** Events that were read and not taken, by place of the player. */
  #read = new Map<number, HistoryEvent[]>();
  /** Place of the first player whose history is not known to its end, and the last event known of it. */
  #next = 0;
  #after = NIL_ID;
  /** Number of players for the next statement: those who fitted into the last one, and as many more. */
  #players: number;

  constructor(work: Work, of: HistoriesOf) {
    this.#work = work;
    this.#of = of;
    this.#players = of.playerIds.length;
  }

  /**
   * Yields the history of the player at a place, which is higher each time, in pages.
   * @param room number of events that will be taken of this player and later ones, as far as is known
   */
  async *take(place: number, room: () => number): AsyncGenerator<HistoryEvent[]> {
    for (;;) {
      const events = this.#read.get(place);
      this.#read.delete(place);
      if (events) yield events;
      if (place < this.#next) return;
      await this.#readFrom(place, room());
    }
  }

  async #readFrom(place: number, room: number): Promise<void> {
    const { projectId, playerIds, span } = this.#of;
    const firstAfter = place === this.#next ? this.#after : NIL_ID;
    const players = playerIds
      .slice(place, place + this.#players)
      .map((playerId, i) => ({ playerId, afterId: i === 0 ? firstAfter : NIL_ID }));
    const limit = Math.max(LEAST, Math.min(HISTORY_PAGE, room));
    // The embedded database answers without returning to the event loop.
    await nextSlice();
    const rows = await readHistories(this.#work, projectId, players, { ...span, limit });
    const byPlayer = Map.groupBy(rows, (row) => place + row.place);
    this.#read = new Map([...byPlayer].map(([at, own]) => [at, own.map(({ event }) => event)]));
    const last = rows.length < limit ? undefined : rows.at(-1)!;
    this.#next = place + (last?.place ?? players.length);
    this.#after = last?.event.id ?? NIL_ID;
    this.#players = Math.max(LEAST, 2 * (this.#next - place));
  }
}

/** Maximum span of a backtest, in days. */
const BACKTEST_DAYS_MAX = 366;
/** Number of players who are loaded together, sampled or not. */
const PLAYERS_AT_ONCE = 200;
/** Maximum number of times that a step loads players. */
const PAGES_AT_ONCE = 10;
/** Number of events after which a step begins no further player. */
const EVENTS_AT_ONCE = 4_000;
/** Time after which a step of the job begins no further player, in ms. */
const STEP_MS = 2_000;
/** Steps of the rule after which a player is cut off. */
const PLAYER_STEPS_MAX = 5_000_000;
/** Maximum number of events per player; of more, the first ones of the span are used. */
const PLAYER_EVENTS_MAX = 20_000;

/** Limited to what the database can compare, and to the age that an event can have. */
const Time = IsoTime.refine(
  (text) => Date.parse(text) >= Date.UTC(1000, 0) && Date.parse(text) < Date.UTC(9999, 0),
  {
    error: "must be a time of the years 1000 to 9998",
  },
);

export const BacktestRequest = z
  .strictObject({
    from: Time.describe("By the events' time, inclusive"),
    to: Time.describe("Exclusive"),
    sampleRate: z.number().gt(0).max(1).default(1).describe("Share of players, chosen by a hash of their id"),
    version: z.int().min(1).optional().describe("A published version; default: the draft"),
    draft: z.literal(true).optional().describe("The draft, which is the default"),
  })
  .refine(({ version, draft }) => version === undefined || draft === undefined, {
    path: ["draft"],
    message: "give either draft or version",
  });
export type BacktestRequest = z.output<typeof BacktestRequest>;

const Params = z.object({
  ruleId: z.uuid(),
  ruleKey: z.string(),
  version: z.int(),
  definition: StoredRule,
  from: Time,
  to: Time,
  sampleRate: z.number(),
});
type Params = z.output<typeof Params>;

/**
 * Returns the parameters of a backtest job: a copy of the current rule, so that later edits do not change the
 * test.
 * @throws DomainError NOT_FOUND: rule, version; VALIDATION_ERROR
 */
export const backtestParams = async (
  work: Work,
  projectId: string,
  ref: string,
  { from, to, sampleRate, version }: BacktestRequest,
): Promise<Params> => {
  const rule = await findRule(work, projectId, ref);
  checkSpan(Date.parse(from), Date.parse(to), BACKTEST_DAYS_MAX);
  const document = version === undefined ? rule.draft : (await findVersion(work, rule, version)).definition;
  const parsed = StoredRule.safeParse(document);
  if (!parsed.success) throw refusal(problemsOf(parsed.error));
  return {
    ruleId: rule.id,
    ruleKey: rule.key,
    version: version ?? rule.draftVersion,
    definition: parsed.data,
    from,
    to,
    sampleRate,
  };
};

const State = z.object({
  after: z.string().default(NIL_ID),
  looked: z.number().default(0),
  total: z.number().optional(),
  replay: ReplayState.optional(),
});

const SAMPLES = 10_000;

/** Selects the same players every time; a smaller share is a subset of a larger one. */
const isSampled = ({ id }: PlayerState, rate: number): boolean =>
  fnv1a(`backtest${id}`) % SAMPLES < rate * SAMPLES;

/**
 * Replays stored events against one rule alone, player by player, and writes none of its effects. Players
 * begin in their current state, but with empty counters, streaks and limits; limits over all players and
 * budgets are consumed in the order of players, not of time.
 */
export const backtest = jobKind({
  kind: "BACKTEST",
  access: { scope: "rules:manage", roles: DESIGNERS },
  params: Params,
  step: async (work, { projectId, params, state }) => {
    const { after, looked, ...rest } = State.parse(state);
    const { definition: _definition, ...about } = params;
    const plan = await planOf(work, projectId, params);
    if (!plan) throw notFound("project");
    const total = rest.total ?? (await countRows(work, sql`players where project_id = ${projectId}`)).total;
    const run = startOf(plan, rest.replay);
    const pass: Pass = {
      run,
      params,
      pace: new Pace(STEP_MS),
      eventsMax: run.state.events + EVENTS_AT_ONCE,
    };
    let at = { after, looked };
    for (let pages = 0; pages < PAGES_AT_ONCE && !isOver(pass); pages++) {
      await nextSlice();
      const page = await readPlayersPage(work, projectId, at, PLAYERS_AT_ONCE);
      if (page.length === 0) return { result: { ...about, ...resultOf(run) } };
      const done = await replayPlayers(work, pass, page);
      at = { after: page[done - 1]!.id, looked: at.looked + done };
    }
    const next = { ...at, total, replay: run.end() };
    return { state: next, progress: (100 * next.looked) / Math.max(total, next.looked) };
  },
});

/** A project with this rule as its only one; boards, which a rule can only read, stay unchanged. */
const planOf = (
  work: Work,
  projectId: string,
  { ruleId, ruleKey, version, definition }: Params,
): Promise<ProjectPlan | undefined> => {
  const rule = { id: ruleId, key: ruleKey, version, createdAt: work.now, definition };
  return loadPlan(work, projectId, compileRules([rule]));
};

/** One step of the job; it begins no further player once its time is over or `eventsMax` is reached. */
type Pass = { run: Replay; params: Params; pace: Pace; eventsMax: number };

const isOver = ({ run, pace, eventsMax }: Pass): boolean => run.state.events >= eventsMax || pace.isOver;

/** @returns the number of leading players that were looked at, at least one; the next step begins behind */
const replayPlayers = async (work: Work, pass: Pass, page: readonly PlayerState[]): Promise<number> => {
  const { run, params, eventsMax } = pass;
  const sampled = page.filter((player) => isSampled(player, params.sampleRate));
  await nextSlice();
  const loaded = await loadPage(work, sampled, run.plan);
  const histories = new Histories(work, {
    projectId: run.plan.projectId,
    playerIds: loaded.map(({ id }) => id),
    span: { fromMs: Date.parse(params.from), toMs: Date.parse(params.to) },
  });
  let place = 0;
  for (const [i, player] of page.entries()) {
    if (isSampled(player, params.sampleRate)) {
      if (place === loaded.length) return i;
      const history = histories.take(place++, () => eventsMax - run.state.events);
      await replayPlayer(pass, player, history);
    }
    if (isOver(pass)) return i + 1;
  }
  return page.length;
};

const replayPlayer = async (
  { run, pace }: Pass,
  player: PlayerState,
  history: AsyncGenerator<HistoryEvent[]>,
): Promise<void> => {
  const one = run.player(player);
  let steps = 0;
  for await (const page of history) {
    for (const event of page) {
      if (one.events() === PLAYER_EVENTS_MAX) return one.end();
      if (steps > PLAYER_STEPS_MAX) {
        run.state.playersCut++;
        return one.end();
      }
      steps += replay(run, one, event);
      await pace.pause();
    }
  }
  one.end();
};
