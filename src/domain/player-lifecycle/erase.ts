import { sql } from "kysely";
import { z } from "zod";
import { ADMINS } from "../kernel/access.ts";
import { audit } from "../accounts/audit/audit.ts";
import { tenantOf } from "../kernel/caller.ts";
import { holdEvents } from "../kernel/config-lock.ts";
import { eraseInboxMessages, eraseMentions } from "../social/chat/erase-mentions.ts";
import { eraseChat } from "../social/chat/personal.ts";
import type { Json } from "../kernel/events/events.ts";
import { partitionOf } from "../kernel/ids.ts";
import { leaveLobbies } from "../social/lobbies/leave-all.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import { projectTime } from "../kernel/project-time.ts";
import { openGroupChange } from "../progression/group-change.ts";
import { jobKind, type JobInProgress, type Step } from "../long-work/job-kind.ts";
import { type ProjectJob, queueJob } from "../long-work/project-jobs.ts";
import { eraseWebhookEvents } from "../delivery/webhooks/personal.ts";
import type { Work } from "../kernel/work.ts";
import {
  add,
  type Counts,
  erasedName,
  eraseEvents,
  eraseLedger,
  eraseOutbox,
  eraseOwnRows,
  eraseQueued,
  eventsUntilNow,
} from "./erase-rows.ts";
import { eraseExports } from "./erase-exports.ts";
import { eraseShared } from "./erase-shared.ts";
import { countPersonal } from "./export.ts";
import { PERSONAL_TABLES } from "./personal-tables.ts";
import { findPerson, type Person } from "../players/person.ts";
import type { Player } from "../players/player.ts";
import { lockOne } from "../progression/players/players.ts";

const Params = z.object({ playerId: z.uuid(), isDryRun: z.boolean(), requestedAt: z.iso.datetime() });
type Params = z.output<typeof Params>;

/** The remaining work, and the person: the names are erased everywhere else. */
const State = z.object({
  ids: z.array(z.string()),
  names: z.array(z.string()),
  /** The events at the start; others belong to another player who has the name by now. */
  events: z.object({ upTo: z.string(), also: z.array(z.string()) }),
  phase: z.enum(["EVENTS", "CHAT", "MENTIONS", "LEDGER", "OUTBOX", "SHARED", "WEBHOOKS", "EXPORTS"]),
  /** Where the phase continues. */
  after: z.array(z.union([z.string(), z.number()])),
  rows: z.record(z.string(), z.number()),
  erasedAt: z.string(),
});
type State = z.output<typeof State>;

/**
 * Erases everything that identifies a person from the database. The first step, in one transaction, ends the
 * player: status ERASED, names and profile removed, waiting events detached. The following steps go through
 * events, chat, ledger, stream and events about several players. The ledger's amounts, keys and hashes stay,
 * and so do the seqs of the stream's lines.
 */
export const playerErase = jobKind({
  kind: "PLAYER_ERASE",
  access: { scope: "players:write", roles: ADMINS },
  params: Params,
  step: async (work, job): Promise<Step> => {
    if (job.params.isDryRun) return { result: await countRows(work, job) };
    const known = State.safeParse(job.state);
    if (known.success) return continueErasure(work, job, known.data);
    return begin(work, job);
  },
});

export type Erasure = { isDryRun: boolean; reason: string; createdBy: string };

/** Starts an erasure. @throws DomainError CONFLICT JOB_LIMIT */
export const startErase = async (
  work: Work,
  { projectId, id: playerId }: Player,
  { isDryRun, reason, createdBy }: Erasure,
): Promise<ProjectJob> => {
  const params = { playerId, isDryRun, requestedAt: work.now.toISOString() };
  const job = await queueJob(work, projectId, { kind: playerErase, params, createdBy });
  await audit(work, {
    action: isDryRun ? "player.erasure_counted" : "player.erasure_started",
    target: { type: "player", id: playerId },
    tenantId: tenantOf(work.by!.caller),
    data: { projectId, reason },
  });
  return job;
};

const countRows = async (work: Work, { projectId, params }: JobInProgress<Params>): Promise<Json> => {
  const person = await findPerson(work, { projectId, playerId: params.playerId });
  const rows: Record<string, number> = {};
  for (const one of PERSONAL_TABLES) {
    const count = one.onErase === "NOTHING" ? 0 : await countPersonal(work, person, one);
    if (count > 0) rows[one.table] = count;
  }
  return { dryRun: true, playerId: params.playerId, rows };
};

/**
 * Names are read again under the player's lock: a merge in between may have added some with running events.
 */
const begin = async (work: Work, job: JobInProgress<Params>): Promise<Step> => {
  const { projectId, params } = job;
  const before = await findPerson(work, { projectId, playerId: params.playerId });
  await holdEvents(
    work,
    projectId,
    before.names.map((name) => partitionOf(projectId, name)),
  );
  let state: PlayerState | undefined;
  const several = await openGroupChange(work, {
    projectId,
    lock: async () => [(state = await lockOne(work, projectId, params.playerId))],
  });
  const player = state!;
  const person = await findPerson(work, { projectId, playerId: player.id });
  if (player.status === "ERASED") return resume(work, job, person);
  if (person.names.some((name) => !before.names.includes(name)))
    throw new Error("another player was merged into this one meanwhile");
  const erasedAt = projectTime(work, several.plan).toISOString();
  const turn = several.open(player);
  Object.assign(player, { status: "ERASED", attributes: {}, tags: [] });
  player.dirty.profile = true;
  turn.emit("player.erased", { playerId: player.id, requestedAt: params.requestedAt, erasedAt });
  await several.save();
  await leaveLobbies(work, person, "LEFT");
  // Before what waits is detached: what comes in between is among that.
  const { upTo, also } = await eventsUntilNow(work, person);
  const rows: Counts = {};
  await eraseQueued(work, person, rows);
  await eraseOwnRows(work, person, rows);
  const { ids, names } = person;
  const next: State = {
    ids: [...ids],
    names: [...names],
    events: { upTo, also: [...also] },
    phase: "EVENTS",
    after: [],
    rows,
    erasedAt,
  };
  return { state: next, progress: 10 };
};

/** Continues the work of an earlier job that was cancelled or has failed. */
const resume = async (
  work: Work,
  { id, projectId, params }: JobInProgress<Params>,
  person: Person,
): Promise<Step> => {
  const found = await sql<{ state: Json }>`
    select state from project_jobs
    where project_id = ${projectId} and kind = ${playerErase.kind} and id <> ${id}
      and params->>'playerId' = ${params.playerId} and state <> '{}'
    order by id desc limit 1`.execute(work.db);
  const left = State.safeParse(found.rows[0]?.state);
  if (left.success) return { state: left.data, progress: 10 };
  const { playerId } = person;
  return { result: { dryRun: false, playerId, erasedAt: null, rows: {} } };
};

type Page = { state: State; rows: Counts };
type After = State["after"];

/** Processes a page of a phase. @returns where its next page begins; undefined at its end */
type Phase = (work: Work, person: Person, page: Page) => Promise<After | undefined>;

/** In this order. */
const PHASES: Readonly<Record<State["phase"], Phase>> = {
  EVENTS: async (work, person, { state, rows }) => {
    const isMore = await eraseEvents(work, person, { ...state.events, rows });
    return isMore ? [] : undefined;
  },
  CHAT: async (work, person, { rows }) => {
    const { count, isMore } = await eraseChat(work, person);
    add(rows, "chat_messages", count);
    const areMoreLetters = await eraseInboxMessages(work, person);
    return isMore || areMoreLetters ? [] : undefined;
  },
  MENTIONS: async (work, person, { state, rows }) => {
    const { count, after } = await eraseMentions(work, person, state.after);
    add(rows, "chat_messages", count);
    return after;
  },
  LEDGER: (work, person, { state, rows }) => eraseLedger(work, person, { after: state.after, rows }),
  OUTBOX: (work, person, { state, rows }) => eraseOutbox(work, person, { after: state.after, rows }),
  SHARED: async (work, person, { state, rows }) => {
    const name = erasedName(person.playerId);
    const { count, after } = await eraseShared(work, person, { after: state.after[0]?.toString(), name });
    add(rows, "outbox", count);
    return after === undefined ? undefined : [after];
  },
  // Last: lines that the earlier phases did not reach in time have been relayed by now, and are in the feed.
  WEBHOOKS: async (work, person, { state, rows }) => {
    const from = Number(state.after[0] ?? 0);
    const { erasedAt } = state;
    const { events, deliveries, after } = await eraseWebhookEvents(work, { ...person, erasedAt }, from);
    add(rows, "webhook_events", events);
    add(rows, "webhook_deliveries", deliveries);
    return after === undefined ? undefined : [after];
  },
  EXPORTS: async (work, person, { rows }) => {
    await eraseExports(work, person, rows);
    return undefined;
  },
};
const ORDER = Object.keys(PHASES) as State["phase"][];

const continueErasure = async (
  work: Work,
  { projectId, params }: JobInProgress<Params>,
  state: State,
): Promise<Step> => {
  const { playerId } = params;
  const { ids, names, rows, phase, erasedAt } = state;
  const person: Person = { projectId, playerId, ids, names };
  const after = await PHASES[phase](work, person, { state, rows });
  const done = ORDER.indexOf(phase) + 1;
  const next = after ? phase : ORDER[done];
  if (next) {
    const progress = Math.floor((100 * done) / (ORDER.length + 1));
    return { state: { ...state, rows, phase: next, after: after ?? [] }, progress };
  }
  await forgetStates(work, person);
  return { result: { dryRun: false, playerId, erasedAt, rows } };
};

/** Clears the states of jobs about the player; this job's own is cleared when it ends. */
const forgetStates = async ({ db }: Work, { projectId, playerId }: Person): Promise<void> => {
  await sql`
    update project_jobs set state = '{}'
    where project_id = ${projectId} and kind = ${playerErase.kind} and params->>'playerId' = ${playerId}
      and status not in ('QUEUED', 'RUNNING')`.execute(db);
};
