import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import type { App } from "../app.ts";
import { RuleDocument } from "../domain/evaluation/language/document.ts";
import { compileRollout } from "../domain/evaluation/running/limits.ts";
import { getPlayer, upsertPlayers } from "../domain/progression/players/players.ts";
import { readConfigDocument } from "../domain/registries/configuration/document.ts";
import { importConfig } from "../domain/registries/configuration/import.ts";
import { readBacklog } from "../domain/tracking/backlog.ts";
import { BATCH_MAX_EVENTS, readEvent } from "../domain/tracking/event-input.ts";
import { trackBatch } from "../domain/tracking/group-commit.ts";
import {
  type DemoAccount,
  findDemo,
  getSandbox,
  newDemoKey,
  openAccount,
  openProject,
  readDemoFile,
  writeDemoFile,
} from "./demo-account.ts";
import { BONUS_RULE, demoGame, SEASON, seasonEnd } from "./demo-game.ts";
import { type DemoEvent, demoHistory, type DemoPlayer, demoPlayers } from "./demo-history.ts";
import { inProjectTime } from "../domain/accounts/projects/project.ts";
import { adventureKind, readAdventureStats } from "../domain/economy/adventures/kind.ts";
import {
  claimPlayerTier,
  givePlayerPremium,
  readPlayerAdventure,
} from "../domain/economy/adventures/change-adventures.ts";
import { Definition } from "../domain/economy/definitions/definitions.ts";
import { draftStatusOf, patchDraft, publishDraft } from "../domain/economy/definitions/drafts.ts";
import type { Adventure } from "../domain/evaluation/adventures/adventure.ts";
import type { Track } from "../domain/evaluation/adventures/row.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import type { Work } from "../domain/kernel/work.ts";

const ACTOR = "demo";
const PLAYERS_AT_ONCE = 250;
const DRAIN_POLL_MS = 50;
const DRAIN_MAX_MS = 180_000;

export type Demo = {
  projectId: string;
  key: string;
  /** Number of events in its history. */
  events: number;
  /** Only for a demo that was just created. */
  password: string | undefined;
  /** Undefined if none runs: a designer has ended it. */
  season: DemoSeason | undefined;
};

/** Receives progress messages while the demo is created; throwing from it aborts. */
type OnProgress = (text: string) => void;

/**
 * Opens the demo of this database. An empty database gets one; one that an earlier start left unfinished is
 * completed: every step finds what exists already, and events are deduplicated by their idempotency keys.
 * @returns undefined when there is none and none is to be created
 */
export const openDemo = async (
  app: App,
  onProgress: OnProgress,
  stopping: AbortSignal,
): Promise<Demo | undefined> => {
  const state = await findDemo(app.transact);
  if (state.kind === "none") return undefined;
  const known = state.kind === "found" ? state.account : undefined;
  const file = await readDemoFile(app.config.dataDir);
  if (file?.isComplete && file.projectId === known?.projectId) {
    const { id } = await getSandbox(app, file.projectId);
    for (const projectId of [file.projectId, id]) await renewSeason(app, projectId);
    return { ...file, password: undefined, season: await readSeason(app, id) };
  }
  return makeDemo(app, known, (text) => {
    stopping.throwIfAborted();
    onProgress(text);
  });
};

/** Must be called after the password was shown. */
export const completeDemo = (app: App, { projectId, key, events }: Demo): Promise<void> =>
  writeDemoFile(app.config.dataDir, { projectId, key, events, isComplete: true });

const makeDemo = async (app: App, known: DemoAccount | undefined, onProgress: OnProgress): Promise<Demo> => {
  onProgress("Making the demo project");
  const { password, ...account } = await openAccount(app, known);
  const projectId = await openProject(app, account);
  const key = await openKey(app, account.tenantId, projectId);
  const sandbox = await getSandbox(app, projectId);
  // The project has the same rules as its sandbox, so that a live key finds a game as well.
  const endMs = sandbox.createdAt.getTime();
  for (const id of [projectId, sandbox.id])
    await defineGame(app, { tenantId: account.tenantId, projectId: id }, endMs);
  await sendPlayers(app, sandbox.id, demoPlayers());
  const { players, events } = demoHistory(endMs, await holdoutOf(app, sandbox.id));
  await sendEvents(app, { tenantId: account.tenantId, projectId: sandbox.id }, events, onProgress);
  await drain(app, sandbox.id, events.length, onProgress);
  await claimTiers(app, sandbox.id, players);
  await drain(app, sandbox.id, events.length, onProgress);
  // Two months at once leave more behind than a game does between two looks.
  await app.maintain();
  return { projectId, key, events: events.length, password, season: await readSeason(app, sandbox.id) };
};

const openKey = async (app: App, tenantId: string, projectId: string): Promise<string> => {
  const { dataDir } = app.config;
  const file = await readDemoFile(dataDir);
  if (file?.projectId === projectId) return file.key;
  const key = await newDemoKey(app, tenantId, projectId);
  await writeDemoFile(dataDir, { projectId, key, events: 0, isComplete: false });
  return key;
};

/** Imports the game, unless an earlier start has. */
const defineGame = async (
  app: App,
  { tenantId, projectId }: { tenantId: string; projectId: string },
  historyEndMs: number,
): Promise<void> => {
  const document = await readConfigDocument(demoGame(historyEndMs));
  const signal = new AbortController().signal;
  const asked = { document, questions: new Map(), prune: false, tenantId, actor: ACTOR, signal };
  await app.transact((work) => importConfig(work, projectId, asked));
};

const chunksOf = <T>(items: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));

const sendPlayers = async (app: App, projectId: string, players: readonly DemoPlayer[]): Promise<void> => {
  for (const some of chunksOf(players, PLAYERS_AT_ONCE))
    await app.transact((work) => upsertPlayers(work, projectId, { players: some, cause: { kind: "API" } }));
};

/** Returns whether the rule of the bonus leaves a player out, by the ids that the players have. */
const holdoutOf = async (app: App, projectId: string): Promise<(externalUserId: string) => boolean> => {
  const bucketOf = compileRollout(BONUS_RULE.key, RuleDocument.parse(BONUS_RULE).rollout)!;
  const { rows } = await app.transact(({ db }) =>
    sql<{ id: string; user: string }>`
      select id::text as id, external_user_id as "user" from players
      where project_id = ${projectId}::uuid`.execute(db),
  );
  const held = new Set(rows.filter(({ id }) => bucketOf(id) === "HELD").map(({ user }) => user));
  return (user) => held.has(user);
};

const sendEvents = async (
  app: App,
  { tenantId, projectId }: { tenantId: string; projectId: string },
  events: readonly DemoEvent[],
  onProgress: OnProgress,
): Promise<void> => {
  // The operator's own demo is not limited by a plan.
  const sender = { tenantId, tenant: { plan: "ENTERPRISE", planOverrides: {} } } as const;
  const context = { now: app.clock(), resolve: () => ({ id: projectId, maxEventAgeDays: null }) };
  let sent = 0;
  for (const some of chunksOf(events, BATCH_MAX_EVENTS)) {
    const inputs = some.map((event) => readEvent(event, context));
    const { result } = await trackBatch(app, { sender, inputs });
    const refused = result.results.find(({ status }) => status === "REJECTED");
    if (refused) throw new Error(`a demo event was rejected: ${refused.message}`);
    sent += some.length;
    onProgress(`Making the demo project: ${percent(sent / events.length / 4)}`);
  }
};

/** Waits until every event has been processed and its effects have reached ranks and sockets. */
const drain = async (app: App, projectId: string, total: number, onProgress: OnProgress): Promise<void> => {
  const deadlineMs = performance.now() + DRAIN_MAX_MS;
  for (;;) {
    const { events, commits } = await app.transact((work) => readBacklog(work, projectId));
    const left = events.waiting + events.later;
    if (left === 0 && commits.waiting === 0) return;
    if (performance.now() > deadlineMs)
      throw new Error(`${left} demo events were not processed within ${DRAIN_MAX_MS / 1_000} s`);
    onProgress(`Making the demo project: ${percent(1 - (0.75 * left) / total)}`);
    await delay(DRAIN_POLL_MS);
  }
};

const percent = (part: number): string => `${Math.min(99, Math.floor(part * 100))} %`;

/** So many of the most active players have claimed their free tiers, and bought premium. */
const CLAIMING = 12;
const PREMIUM = 5;
/** A season that ends sooner is put off by a start. */
const RENEW_BEFORE_MS = 14 * 86_400_000;

/** What a start tells about the season. */
type DemoSeason = { name: string; endsAt: string; quests: number; tiers: number; players: number };

const isRefused = (error: unknown): error is DomainError => error instanceof DomainError;

/** Runs a change of a player unless it was made before, or the player cannot pay. */
const unlessRefused = async (app: App, change: (work: Work) => Promise<unknown>): Promise<void> => {
  try {
    await app.transact(change);
  } catch (error) {
    if (!isRefused(error) || error.code !== "CONFLICT") throw error;
  }
};

/** Lets the most active players claim tiers that they have reached, and the first of them buy premium. */
export const claimTiers = async (
  app: App,
  projectId: string,
  players: readonly DemoPlayer[],
): Promise<void> => {
  for (const [i, { externalUserId }] of players.slice(0, CLAIMING).entries()) {
    const { id, reached } = await app.transact(async (work) => {
      const player = await getPlayer(work, projectId, `ext:${externalUserId}`);
      const { tiers } = await readPlayerAdventure(work, player, SEASON);
      return { id: player.id, reached: tiers.filter((tier) => tier.reached) };
    });
    const ref = { projectId, id };
    const claim = async (track: Track): Promise<void> => {
      for (const { tier } of reached)
        await unlessRefused(app, (work) => claimPlayerTier(work, ref, { adventureRef: SEASON, tier, track }));
    };
    await claim("FREE");
    if (i >= PREMIUM) continue;
    const bought = { adventureRef: SEASON, isGranted: false };
    await unlessRefused(app, (work) => givePlayerPremium(work, ref, bought));
    await claim("PREMIUM");
  }
};

const findSeason = ({ em }: Work, projectId: string): Promise<Definition | null> =>
  em.findOne(Definition, { projectId, kind: adventureKind.kind, key: SEASON });

/**
 * Puts off the end of a season that is over or soon will be, so that every start finds it running. One that a
 * designer has edited, paused, ended or archived stays as it is.
 */
export const renewSeason = async (app: App, projectId: string): Promise<void> => {
  try {
    await app.transact(async (outer) => {
      const work = await inProjectTime(outer, projectId);
      const found = await findSeason(work, projectId);
      if (found?.status !== "ACTIVE" || found.phase !== "RUNNING" || found.draft !== null) return;
      const { endsAt } = found.definition as unknown as Adventure;
      if (Date.parse(endsAt) - work.now.getTime() > RENEW_BEFORE_MS) return;
      const changes = { endsAt: seasonEnd(work.now.getTime()), claimUntil: null };
      await patchDraft(work, adventureKind, { projectId, ref: SEASON, changes });
      await publishDraft(work, adventureKind, { projectId, ref: SEASON });
    });
  } catch (error) {
    if (!isRefused(error)) throw error;
    // Such as a quest of it that was archived after its end.
    app.log.warn({ err: error }, "the season of the demo was not renewed");
  }
};

/** Returns what there is to tell of the season; undefined where none runs. */
export const readSeason = (app: App, projectId: string): Promise<DemoSeason | undefined> =>
  app.transact(async (outer) => {
    const work = await inProjectTime(outer, projectId);
    const found = await findSeason(work, projectId);
    if (!found || draftStatusOf(found, work.now) !== "ACTIVE") return undefined;
    const { name, endsAt, items, tiers } = found.definition as unknown as Adventure;
    const { players } = await readAdventureStats(work, found);
    return { name, endsAt, quests: items.length, tiers: tiers.length, players };
  });
