import { newId } from "../ids.ts";
import { outboxRow, savepoint, type Transact, type Work } from "../work.ts";
import { announcePlayer, type Effects, evaluateEvent, noEffects, openTurn } from "./evaluate.ts";
import { type ExternalRef, externalKey, insertPlayers, loadStates, lockPlayers } from "./load.ts";
import {
  CLAIM_PROJECTS,
  claimEvents,
  lockPartition,
  postponeEvent,
  type QueuedEvent,
  RETRY_DELAYS_MS,
} from "./queue.ts";
import { batchOutboxParts, type EventVerdict, saveBatch } from "./save.ts";
import { loadPlans, type PlanCache, type ProjectPlan } from "./setup.ts";
import type { PlayerState } from "./turn.ts";

export type ProcessOptions = {
  transact: Transact;
  plans: PlanCache;
  /** Events of one project in one claim. */
  claimLimit: number;
  onError: (error: unknown, event: QueuedEvent) => void;
};

/** `lastProject` is where the next claim goes on: FIRST_PROJECT when it begins anew. */
export type Processed = { events: number; isBusy: boolean; lastProject: string };

export const FIRST_PROJECT = "00000000-0000-0000-0000-000000000000";

/**
 * Processes one claim of a partition in one transaction: lock, claim, lock players, load, evaluate, save. A
 * constant number of statements whatever the number of events. When that fails, the claim is undone and its
 * events are tried one by one under savepoints, so that a poisoned event delays and fails only itself, and
 * definitions that cannot be read only their own project.
 */
export const processPartition = async (
  options: ProcessOptions,
  part: number,
  afterProject: string,
): Promise<Processed> => {
  try {
    return await processClaim(options, { part, afterProject }, runTogether);
  } catch {
    // What it was is logged below, by the event that does it again alone.
    return processClaim(options, { part, afterProject }, runOneByOne);
  }
};

type Claim = { events: readonly QueuedEvent[]; projectIds: readonly string[]; part: number };
type RunClaim = (work: Work, claim: Claim, options: ProcessOptions) => Promise<void>;

const processClaim = (
  options: ProcessOptions,
  { part, afterProject }: { part: number; afterProject: string },
  run: RunClaim,
): Promise<Processed> =>
  options.transact(async (work) => {
    if (!(await lockPartition(work, part))) return { events: 0, isBusy: true, lastProject: FIRST_PROJECT };
    const events = await claimEvents(work, part, { afterProject, limit: options.claimLimit });
    if (events.length === 0) return { events: 0, isBusy: false, lastProject: FIRST_PROJECT };
    const projectIds = [...new Set(events.map((event) => event.projectId))];
    await run(work, { events, projectIds, part }, options);
    // Fewer projects than a claim takes: there is none after these, so the next claim begins anew.
    const lastProject = projectIds.length < CLAIM_PROJECTS ? FIRST_PROJECT : projectIds.at(-1)!;
    return { events: events.length, isBusy: false, lastProject };
  });

const runTogether: RunClaim = async (work, { events, projectIds, part }, options) => {
  const plans = await loadPlans(work, projectIds, options.plans);
  await runBatch(work, { events, part, plans });
};

/** The plan of one project, or a throw of what was thrown when it was loaded. */
type LoadedPlan = () => Map<string, ProjectPlan>;

const runOneByOne: RunClaim = async (work, { events, projectIds, part }, options) => {
  const loaded = new Map<string, LoadedPlan>();
  for (const projectId of projectIds) loaded.set(projectId, await tryPlan(work, projectId, options.plans));
  for (const event of events) {
    await runAlone(work, { event, part, plan: loaded.get(event.projectId)!, options });
  }
};

const tryPlan = async (work: Work, projectId: string, cache: PlanCache): Promise<LoadedPlan> => {
  try {
    const plans = await savepoint(work, () => loadPlans(work, [projectId], cache));
    return () => plans;
  } catch (error) {
    return () => {
      throw error;
    };
  }
};

type Alone = { event: QueuedEvent; part: number; plan: LoadedPlan; options: ProcessOptions };

const runAlone = async (work: Work, { event, part, plan, options }: Alone): Promise<void> => {
  try {
    const plans = plan();
    await savepoint(work, () => runBatch(work, { events: [event], part, plans }));
  } catch (error) {
    options.onError(error, event);
    if (event.attempts < RETRY_DELAYS_MS.length) await postponeEvent(work, part, event);
    else await failEvent(work, { event, part, error });
  }
};

/** Gives an event up: FAILED for good, and `event.failed` says so. */
const failEvent = async (
  work: Work,
  { event, part, error }: { event: QueuedEvent; part: number; error: unknown },
): Promise<void> => {
  const { projectId, eventId, eventType, externalUserId, seq } = event;
  const message = (error instanceof Error ? error.message : String(error)).slice(0, 500);
  const attempts = event.attempts + 1;
  const failed = outboxRow(projectId, "event.failed", {
    eventId,
    eventType,
    externalUserId,
    error: message,
    attempts,
  });
  const batch = {
    players: [],
    effects: { outbox: [failed], ledger: [] },
    verdicts: [{ projectId, eventId, status: "FAILED" as const, error: message, attempts }],
    done: [{ projectId, part, seq }],
  };
  await saveBatch(work, batch);
  work.ring(batchOutboxParts(batch));
};

type BatchInput = { events: readonly QueuedEvent[]; part: number; plans: Map<string, ProjectPlan> };

const runBatch = async (work: Work, { events, part, plans }: BatchInput): Promise<void> => {
  const effects = noEffects();
  const players = await lockOrCreate(work, { events, plans, effects });
  const states = [...players.values()];
  if (states.length > 0)
    await loadStates(
      work,
      states,
      [...plans.values()].flatMap((plan) => plan.boards.map((b) => b.periodId)),
    );
  const verdicts: EventVerdict[] = [];
  for (const event of events) {
    const verdict = applyEvent(event, { plans, players, effects, nowMs: work.now.getTime() });
    if (verdict) verdicts.push(verdict);
  }
  const done = events.map(({ projectId, seq }) => ({ projectId, part, seq }));
  const batch = { players: states, effects, verdicts, done };
  await saveBatch(work, batch);
  work.ring(batchOutboxParts(batch));
};

type Scene = {
  plans: Map<string, ProjectPlan>;
  players: Map<string, PlayerState>;
  effects: Effects;
  nowMs: number;
};

const applyEvent = (
  queued: QueuedEvent,
  { plans, players, effects, nowMs }: Scene,
): EventVerdict | undefined => {
  const { projectId, eventId } = queued;
  const player = players.get(externalKey(queued));
  const reject = (error: string): EventVerdict => ({
    projectId,
    eventId,
    status: "REJECTED",
    error,
    attempts: queued.attempts + 1,
  });
  if (!player) return reject("the player is unknown and this project does not create players");
  if (player.status !== "ACTIVE") return reject(`the player is ${player.status}`);
  const plan = plans.get(projectId)!;
  const at = Math.min(queued.occurredAt.getTime(), nowMs);
  const event = { id: eventId, type: queued.eventType, at, properties: queued.properties };
  evaluateEvent(plan, openTurn({ plan, player, event, nowMs, effects, eventId }));
  return undefined;
};

type LockInput = { events: readonly QueuedEvent[]; plans: Map<string, ProjectPlan>; effects: Effects };

/** Locks the batch's players and makes those seen for the first time, announcing each in its stream. */
const lockOrCreate = async (
  work: Work,
  { events, plans, effects }: LockInput,
): Promise<Map<string, PlayerState>> => {
  const refs = new Map<string, ExternalRef>(events.map((event) => [externalKey(event), event]));
  const players = new Map<string, PlayerState>();
  const lock = async (wanted: readonly ExternalRef[]) => {
    for (const player of await lockPlayers(work, wanted)) players.set(externalKey(player), player);
  };
  await lock([...refs.values()]);
  const missing = [...refs.values()].filter(
    (ref) => !players.has(externalKey(ref)) && plans.get(ref.projectId)!.autoCreatePlayers,
  );
  if (missing.length === 0) return players;

  const made = await insertPlayers(
    work,
    missing.map((ref) => ({ ...ref, id: newId() })),
  );
  await lock(missing);
  const firstEvent = new Map(events.toReversed().map((event) => [externalKey(event), event]));
  for (const ref of missing) {
    const player = players.get(externalKey(ref));
    if (!player || !made.has(player.id)) continue;
    const cause = firstEvent.get(externalKey(ref))!;
    const event = {
      id: cause.eventId,
      type: cause.eventType,
      at: cause.occurredAt.getTime(),
      properties: cause.properties,
    };
    const turn = openTurn({
      plan: plans.get(ref.projectId)!,
      player,
      event,
      nowMs: work.now.getTime(),
      effects,
      eventId: cause.eventId,
    });
    announcePlayer(turn, "EVENT");
  }
  return players;
};
