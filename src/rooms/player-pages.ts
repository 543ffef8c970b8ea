import type { App } from "../app.ts";
import { DomainError, notFound } from "../domain/kernel/errors.ts";
import { type Grouped, grouped } from "../domain/kernel/grouped.ts";
import { readPlayerStreams, type StreamRef } from "../domain/delivery/outbox/stream.ts";
import { Player } from "../domain/players/player.ts";
import { type ShownPlayer, showPlayers } from "../domain/progression/players/show.ts";
import { projectPlans, readPlan } from "../domain/progression/plan.ts";
import type { ProjectPlan } from "../domain/evaluation/project-plan.ts";
import type { PlayerMessage } from "../domain/kernel/events/topics.ts";
import type { Work } from "../domain/kernel/work.ts";
import { REPLAY_MAX, type StreamPage } from "./ordered-stream.ts";
import { transactIn } from "./project-transact.ts";

/** Maximum number of players per read: each may have REPLAY_MAX lines to replay. */
const READ_MAX = 32;

/** A player's current state, and the lines after the requested one. */
export type PlayerPage = StreamPage<PlayerMessage> & { player: ShownPlayer; plan: ProjectPlan };

/** `afterSeq`: the newest known line; absent: no lines are wanted. */
type PageRequest = { ref: StreamRef; afterSeq?: number | undefined };

/**
 * Reads players for their rooms; simultaneous requests of one project share a read.
 * @throws DomainError NOT_FOUND
 */
export const createPageReader = (app: App): Grouped<PageRequest, PlayerPage> => {
  const read = grouped<PageRequest, PlayerPage | DomainError>({
    keyOf: ({ ref }) => ref.projectId,
    run: (asked) => transactIn(app, asked[0]!.ref.projectId)((work) => readPages(work, asked)),
    runMax: READ_MAX,
  });
  return async (ask) => {
    const page = await read(ask);
    if (page instanceof DomainError) throw page;
    return page;
  };
};

/** Reads pages of players of one project. */
const readPages = async (
  work: Work,
  asked: readonly PageRequest[],
): Promise<(PlayerPage | DomainError)[]> => {
  const { projectId } = asked[0]!.ref;
  const ids = [...new Set(asked.map(({ ref }) => ref.playerId))];
  // The players first: lines committed in between are then extra, never missing.
  const players = await work.em.find(Player, { projectId, id: { $in: ids }, mergedInto: null });
  const plan = await readPlan(work, projectId, projectPlans);
  const shown = new Map((await showPlayers(work, projectId, players)).map((player) => [player.id, player]));
  const lines = await readLines(work, projectId, asked, shown);
  return asked.map((ask) => {
    // A player who was merged into another has ended: the other's stream is another room's.
    const player = shown.get(ask.ref.playerId);
    return player ? { seq: player.seq, messages: lines.get(ask) ?? [], player, plan } : notFound("player");
  });
};

/** Reads the lines for clients that are not too far behind to replay them. */
const readLines = async (
  work: Work,
  projectId: string,
  asked: readonly PageRequest[],
  shown: ReadonlyMap<string, ShownPlayer>,
): Promise<Map<PageRequest, PlayerMessage[]>> => {
  const behind = asked.filter(({ ref, afterSeq }) => {
    const { seq } = shown.get(ref.playerId) ?? { seq: 0 };
    return afterSeq !== undefined && seq > afterSeq && seq - afterSeq <= REPLAY_MAX;
  });
  const tails = behind.map(({ ref, afterSeq }) => ({ playerId: ref.playerId, afterSeq: afterSeq! }));
  const lines = await readPlayerStreams(work, projectId, { tails, limit: REPLAY_MAX });
  return new Map(behind.map((ask, n) => [ask, lines[n]!]));
};
