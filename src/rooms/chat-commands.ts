import { z } from "zod";
import type { App } from "../app.ts";
import { Seq } from "../domain/social/chat/bodies.ts";
import type { ChannelRef } from "../domain/social/chat/channels.ts";
import { CHAT_COMMANDS } from "../domain/social/chat/commands.ts";
import { recordBlocked } from "../domain/social/chat/moderation/escalation.ts";
import { prepareFilter } from "../domain/social/chat/moderation/filters.ts";
import {
  admitReport,
  REPORT_NOTE_MAX,
  reportMessage,
} from "../domain/social/chat/moderation/report-message.ts";
import { type ChatActor, REPORT_REASONS } from "../domain/kernel/events/chat-views.ts";
import { forbidden } from "../domain/kernel/errors.ts";
import { transactIn } from "./project-transact.ts";

const ReportBody = z.strictObject({
  seq: Seq,
  reason: z.enum(REPORT_REASONS),
  note: z.string().min(1).max(REPORT_NOTE_MAX).optional(),
});

/** Counts a refused message against its sender: after the third the player is muted. */
export const countRefused = async (
  app: App,
  { projectId, channelId }: ChannelRef,
  actor: ChatActor,
  error: unknown,
): Promise<void> => {
  if (actor.kind !== "PLAYER") return;
  const parts = { limiter: app.limiter, transact: transactIn(app, projectId) };
  await recordBlocked(parts, { projectId, channelId, playerId: actor.playerId }, error);
};

export type ChatRequest = {
  body: z.ZodType;
  run(app: App, ref: ChannelRef, actor: ChatActor, body: unknown): Promise<unknown>;
};

const report: ChatRequest = {
  body: ReportBody,
  run: async (app, ref, actor, body) => {
    if (actor.kind !== "PLAYER")
      throw forbidden("PLAYER_TOKEN_REQUIRED", "only players can report messages: use a player's token");
    const { playerId } = actor;
    await admitReport(app, ref.projectId, playerId);
    const given = { playerId, ...(body as z.output<typeof ReportBody>) };
    const { id, createdAt } = await transactIn(app, ref.projectId)((work) => reportMessage(work, ref, given));
    return { id, createdAt };
  },
};

/** Requests besides sends that clients of room `chat` may make, by message name. */
export const CHAT_REQUESTS: ReadonlyMap<string, ChatRequest> = new Map([
  ["chat.report", report],
  ...Object.entries(CHAT_COMMANDS).map(([name, command]): [string, ChatRequest] => [
    name,
    {
      body: command.body,
      run: async (app, ref, actor, body) => {
        try {
          const transact = transactIn(app, ref.projectId);
          if (name === "chat.edit") await prepareFilter({ transact }, ref.projectId);
          return (await transact((work) => command.run(work, ref, actor, body))).reply;
        } catch (error) {
          await countRefused(app, ref, actor, error);
          throw error;
        }
      },
    },
  ]),
]);
