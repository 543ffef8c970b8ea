import type { App } from "../app.ts";
import { DomainError, notFound, retryLater } from "../domain/kernel/errors.ts";
import { type PlayerGoals, readPlayersGoals } from "../domain/economy/adventures/player-goals.ts";
import { type Grouped, grouped } from "../domain/kernel/grouped.ts";
import { readPlayersNow } from "../domain/delivery/outbox/player-pages.ts";
import type { StreamRef } from "../domain/delivery/outbox/stream.ts";
import type { ShownPlayer } from "../domain/progression/players/show.ts";
import { projectPlans, readPlan } from "../domain/progression/plan.ts";
import type { ProjectPlan } from "../domain/evaluation/project-plan.ts";
import type { PlayerMessage } from "../domain/kernel/events/topics.ts";
import { isBroken, REPLAY_MAX, type StreamPage } from "./ordered-stream.ts";
import { readIn, transactIn } from "./project-transact.ts";

/** Maximum number of players per read: each may have REPLAY_MAX lines to replay. */
const READ_MAX = 32;
/** How often definitions that have changed since they were read are read again. */
const PLAN_TRIES = 5;

/**
 * A player's current state, and the lines after the requested one. `goals`: quests and adventures, where the
 * lines do not suffice and the project has any.
 */
export type PlayerPage = StreamPage<PlayerMessage> & {
  player: ShownPlayer;
  plan: ProjectPlan;
  goals?: PlayerGoals | undefined;
};

/** Returns what a client is shown of a page that does not continue what it knows. */
export const snapshotOf = ({ seq, player, goals }: PlayerPage) => {
  const { quests = [], adventures = [], isTruncated = false } = goals ?? {};
  return { seq, player: { ...player, quests, adventures }, ...(isTruncated ? { truncated: true } : {}) };
};

/** `afterSeq`: the newest known line; absent: no lines are wanted. */
type PageRequest = { ref: StreamRef; afterSeq?: number | undefined };

/**
 * Reads players for their rooms; simultaneous requests of one project share a read.
 * @throws DomainError NOT_FOUND
 */
export const createPageReader = (app: App): Grouped<PageRequest, PlayerPage> => {
  const read = grouped<PageRequest, PlayerPage | DomainError>({
    keyOf: ({ ref }) => ref.projectId,
    run: (asked) => readPages(app, asked),
    runMax: READ_MAX,
  });
  return async (ask) => {
    const page = await read(ask);
    if (page instanceof DomainError) throw page;
    return page;
  };
};

/** Reads pages of players of one project: with one statement, if the definitions are in memory. */
const readPages = async (app: App, asked: readonly PageRequest[]): Promise<(PlayerPage | DomainError)[]> => {
  const { projectId } = asked[0]!.ref;
  const query = {
    projectId,
    asked: asked.map(({ ref, afterSeq }) => ({ playerId: ref.playerId, afterSeq })),
    now: app.clock(),
    limit: REPLAY_MAX,
  };
  const read = readIn(app, projectId);
  let players = await readPlayersNow(read, query);
  for (let tried = 0; players === undefined && tried < PLAN_TRIES; tried++) {
    // The definitions are new to this process, or have changed since.
    await transactIn(app, projectId)((work) => readPlan(work, projectId, projectPlans));
    players = await readPlayersNow(read, query);
  }
  if (!players) throw retryLater("the definitions change too often to be shown", "BUSY");
  const pages = players.map((one) => one && { seq: one.player.seq, ...one });
  const goals = await readGoals(app, projectId, { pages, asked });
  return pages.map((page) => (page ? { ...page, goals: goals.get(page.player.id) } : notFound("player")));
};

type Pages = { pages: readonly (PlayerPage | undefined)[]; asked: readonly PageRequest[] };

/** Reads quests and adventures of those who are shown their whole state. They may be newer than the page. */
const readGoals = async (
  app: App,
  projectId: string,
  { pages, asked }: Pages,
): Promise<Map<string, PlayerGoals>> => {
  const whole = pages.flatMap((page, i) => {
    if (!page || page.plan.quests.byKey.size + page.plan.adventures.byKey.size === 0) return [];
    const { afterSeq } = asked[i]!;
    return afterSeq === undefined || isBroken(page, afterSeq) ? [page.player.id] : [];
  });
  if (whole.length === 0) return new Map();
  return transactIn(app, projectId)((work) => readPlayersGoals(work, projectId, whole));
};
