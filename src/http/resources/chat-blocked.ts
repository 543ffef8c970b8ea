import type { App } from "../../app.ts";
import { getChannelId } from "../../domain/social/chat/channels.ts";
import { isBlocked, recordBlocked } from "../../domain/social/chat/moderation/sanction-changes.ts";
import { findPlayer } from "../../domain/progression/players/players.ts";

export type RefusedSend = { projectId: string; channelId: string; playerId?: string | undefined };

/** Counts a message refused for its content against the player; after the third the player is muted. */
export const countBlocked = async (
  app: App,
  { projectId, channelId: asked, playerId: ref }: RefusedSend,
  error: unknown,
): Promise<void> => {
  if (ref === undefined || !isBlocked(error)) return;
  const sender = await app.transact(async (work) => {
    const player = await findPlayer(work, projectId, ref);
    return (
      player && { projectId, playerId: player.id, channelId: await getChannelId(work, projectId, asked) }
    );
  });
  if (sender) await recordBlocked(app, sender, error);
};
