import { sql } from "kysely";
import { z } from "zod";
import { DESIGNERS } from "../../kernel/access.ts";
import { countRows } from "../../kernel/counting.ts";
import { invalid, notFound } from "../../kernel/errors.ts";
import { fnv1a, NIL_ID } from "../../kernel/ids.ts";
import { PacedBudget } from "../../kernel/pace.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import { jobKind } from "../../long-work/job-kind.ts";
import { readPlayersPage } from "../../progression/load.ts";
import { loadPage } from "../../progression/load-states.ts";
import { loadPlan } from "../../progression/plan.ts";
import type { Work } from "../../kernel/work.ts";
import { compileRules } from "../../evaluation/running/compile.ts";
import { StoredRule } from "../../evaluation/language/document.ts";
import { type HistoryEvent, playerHistory } from "./history.ts";
import { replay, ReplayState, resultOf, startOf, type ReplayedPlayer } from "./replay.ts";
import { findRule } from "../rules.ts";
import { problemsOf, refusal } from "../lifecycle/validate.ts";
import { findVersion } from "../lifecycle/versions.ts";

/** Maximum span of a backtest, in days. */
export const BACKTEST_DAYS_MAX = 366;
/** Number of players per step, sampled or not. */
const PLAYERS_AT_ONCE = 200;
/** Number of events after which a step begins no further player. */
const EVENTS_AT_ONCE = 4_000;
/**
 * Steps after which a step of the job begins no further player, and a single player is cut off: about 2 s of
 * CPU.
 */
const STEPS_AT_ONCE = 20_000_000;
/** Maximum number of events per player; of more, the first ones of the span are used. */
const PLAYER_EVENTS_MAX = 20_000;
const DAY_MS = 86_400_000;

/** Limited to what the database can compare, and to the age that an event can have. */
const Time = z.iso
  .datetime({ offset: true })
  .refine((text) => Date.parse(text) >= Date.UTC(1000, 0) && Date.parse(text) < Date.UTC(9999, 0), {
    error: "must be a time of the years 1000 to 9998",
  });

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
  const spanMs = Date.parse(to) - Date.parse(from);
  if (spanMs <= 0) throw invalid("from", "must be before `to`");
  if (spanMs > BACKTEST_DAYS_MAX * DAY_MS)
    throw invalid("from", `may be at most ${BACKTEST_DAYS_MAX} days before \`to\``);
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
    const plan = await planOf(work, projectId, params);
    if (!plan) throw notFound("project");
    const total = rest.total ?? (await countRows(work, sql`players where project_id = ${projectId}`)).total;
    const run = startOf(plan, rest.replay);
    const page = await readPlayersPage(work, projectId, { after }, PLAYERS_AT_ONCE);
    if (page.length === 0) return { result: { ...about(params), ...resultOf(run) } };
    const sampled = page.filter((player) => isSampled(player, params.sampleRate));
    const loaded = new Set(await loadPage(work, sampled, plan));
    const eventsBefore = run.state.events;
    const steps = new PacedBudget(STEPS_AT_ONCE);
    let last = after;
    let seen = 0;
    for (const player of page) {
      const isReplayed = isSampled(player, params.sampleRate);
      // The next step begins with the players that did not fit.
      if (isReplayed && !loaded.has(player)) break;
      if (isReplayed) await replayPlayer(work, run, player, { ...params, steps });
      last = player.id;
      seen++;
      if (run.state.events - eventsBefore >= EVENTS_AT_ONCE || steps.isSpent) break;
    }
    const next = { after: last, looked: looked + seen, total, replay: run.state };
    return { state: next, progress: (100 * next.looked) / Math.max(total, next.looked) };
  },
});

const about = ({ ruleId, ruleKey, version, from, to, sampleRate }: Params) => ({
  ruleId,
  ruleKey,
  version,
  from,
  to,
  sampleRate,
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

const replayPlayer = async (
  work: Work,
  run: ReturnType<typeof startOf>,
  player: PlayerState,
  { from, to, steps }: Pick<Params, "from" | "to"> & { steps: PacedBudget },
): Promise<void> => {
  const span = { fromMs: Date.parse(from), toMs: Date.parse(to) };
  const one = run.player(player);
  const own = new PacedBudget(STEPS_AT_ONCE);
  let spent = 0;
  for await (const page of playerHistory(work, { projectId: player.projectId, playerId: player.id }, span)) {
    const room = PLAYER_EVENTS_MAX - one.events();
    const replayed = await replayPage(run, one, { page: page.slice(0, room), steps: own });
    steps.spend(own.spent - spent);
    spent = own.spent;
    if (replayed < page.length) run.state.playersCut++;
    if (replayed < page.length || page.length === room) break;
  }
  one.end();
};

/** @returns the number of events replayed before the steps were spent */
const replayPage = async (
  run: ReturnType<typeof startOf>,
  one: ReplayedPlayer,
  { page, steps }: { page: readonly HistoryEvent[]; steps: PacedBudget },
): Promise<number> => {
  for (const [i, event] of page.entries()) {
    if (steps.isSpent) return i;
    replay(run, one, { event, steps });
    await steps.pause();
  }
  return page.length;
};
