import { sql } from "kysely";
import { numbered } from "../../kernel/errors.ts";
import { outageOf } from "../../kernel/outages.ts";
import { type Count, type Given, type Limiter, RateLimited } from "../../accounts/rate-limits/limiter.ts";
import type { Transact } from "../../kernel/work.ts";
import type { ChannelRef } from "./channel-row.ts";
import { repeatCount } from "./moderation/filters.ts";
import { clientKey } from "./context.ts";
import type { ChannelSettings, ChatActor, ChatSend } from "../../kernel/events/social-views.ts";

const BURST_SECONDS = 5;
const MINUTE = 60;

/** The parts of App that are needed. */
type FloodParts = { limiter: Limiter; clock: () => Date; transact: Transact };

/** A message about to be sent in a channel with these settings. */
type PlannedSend = {
  actor: ChatActor;
  send: Pick<ChatSend, "content" | "clientMsgId">;
  settings: Pick<ChannelSettings, "slowModeSeconds" | "burstMessages" | "minuteMessages">;
};

type FloodLimit = Count & { reason: string; message: string };

const limitsOf = (
  { projectId, channelId }: ChannelRef,
  playerId: string,
  { send, settings }: PlannedSend,
): FloodLimit[] => {
  const { slowModeSeconds, burstMessages, minuteMessages } = settings;
  const player = `${projectId}:${playerId}`;
  const all: FloodLimit[] = [
    {
      bucket: { name: "chat-slow", points: 1, seconds: slowModeSeconds },
      key: `${player}:${channelId}`,
      reason: "SLOW_MODE",
      message: `This channel takes a player's next message after ${numbered(slowModeSeconds, "second")}`,
    },
    {
      bucket: { name: "chat-burst", points: burstMessages, seconds: BURST_SECONDS },
      key: player,
      reason: "CHAT_RATE",
      message: `A player sends at most ${numbered(burstMessages, "message")} in ${BURST_SECONDS} seconds`,
    },
    {
      bucket: { name: "chat-minute", points: minuteMessages, seconds: MINUTE },
      key: player,
      reason: "CHAT_RATE",
      message: `A player sends at most ${numbered(minuteMessages, "message")} in a minute`,
    },
    {
      ...repeatCount(projectId, playerId, send.content),
      reason: "SPAM",
      message: "The same was said too often",
    },
  ];
  return all.filter(({ bucket }) => bucket.points > 0 && bucket.seconds > 0);
};

/** Whether the player has sent a message with this `clientMsgId` before. */
const isKnown = (
  { transact }: FloodParts,
  { projectId, channelId }: ChannelRef,
  playerId: string,
  clientMsgId: string,
): Promise<boolean> =>
  transact(async ({ db }) => {
    const key = clientKey(channelId, playerId, clientMsgId);
    const found = await sql`
      select 1 from chat_messages where project_id = ${projectId} and client_key = ${key}`.execute(db);
    return found.rows.length > 0;
  });

/** Refunds what a send was counted, if `failure` is an outage. */
export type GiveBack = (failure: unknown) => Promise<void>;

const giveBackOf =
  ({ limiter }: FloodParts, counted: readonly Given[]): GiveBack =>
  async (failure) => {
    if (outageOf(failure) === undefined) return;
    await limiter.giveBack(counted);
  };

/**
 * Counts a player's message against the limits of its channel: slow mode per channel, the others over all
 * channels of the project. Must be called before the transaction of the send. A repeated `clientMsgId`
 * passes, which is looked up only when a limit is exceeded.
 * @returns a function to call with the error of a failed send: nothing was sent, so nothing counts
 * @throws RateLimited SLOW_MODE, CHAT_RATE, SPAM
 */
export const admitSend = async (
  parts: FloodParts,
  ref: ChannelRef,
  planned: PlannedSend,
): Promise<GiveBack> => {
  const { actor, send } = planned;
  if (actor.kind !== "PLAYER") return async () => undefined;
  const limits = limitsOf(ref, actor.playerId, planned);
  const states = await parts.limiter.consumeInTurn(limits);
  const giveBack = giveBackOf(
    parts,
    states.map(({ resetAtMs }, i) => ({ ...limits[i]!, resetAtMs })),
  );
  const at = states.findIndex(({ isAllowed }) => !isAllowed);
  if (at === -1) return giveBack;
  const { clientMsgId } = send;
  try {
    if (clientMsgId !== undefined && (await isKnown(parts, ref, actor.playerId, clientMsgId)))
      return giveBack;
  } catch (error) {
    await giveBack(error);
    throw error;
  }
  const { reason, message } = limits[at]!;
  throw new RateLimited(reason, message, states[at]!, parts.clock().getTime());
};
