import { type Cause, type CustomData, customType, type Json } from "../kernel/events/events.ts";
import { BODY_MAX, sendMessage, TITLE_MAX } from "./inbox/send.ts";
import { outboxRow } from "../kernel/outbox-row.ts";
import { write } from "./event-steps.ts";
import type { Turn } from "./turn.ts";

/** Steps of telling something, beside writing it down. */
const TELL_STEPS = 40;

/** Writes an outbox row of the player: a line of the player's stream unless it `isSilent`. */
export const tell = (turn: Turn, type: string, data: unknown, { isSilent = false } = {}): void => {
  const { player, root } = turn;
  root.steps.spend(TELL_STEPS);
  const options = {
    playerId: player.id,
    ...(isSilent ? {} : { playerSeq: ++player.seq }),
    ...(root.isTracked ? { eventId: root.id } : {}),
  };
  write(turn, "outbox", outboxRow(player.projectId, type, data, options));
};

/** Queues an event that an effect brings about, where anything listens to its type. */
export const derive = ({ project, event, root }: Turn, type: string, properties: Json): void => {
  if (!project.hears(type)) return;
  const via = root.acting ? [...(event.via ?? []), root.acting] : event.via;
  const derived = { id: root.id, type, at: event.at, properties, depth: event.depth + 1 };
  root.derived.push(via === undefined ? derived : { ...derived, via });
};

export type CustomEvent = {
  eventType: string;
  properties: Json;
  cause: Cause;
  /**
   * `rules`: other rules hear it; `webhook` and `realtime`: it goes out as `custom.{eventType}`; `inbox`: it
   * becomes a message to the player.
   */
  channels: readonly string[];
};

/** Emits an event of the integrator's own, as the action `emit_event` does. */
export const emitCustom = (turn: Turn, custom: CustomEvent): void => {
  const { eventType, properties, cause, channels } = custom;
  const { id: playerId, externalUserId } = turn.player;
  if (channels.includes("webhook") || channels.includes("realtime")) {
    const outward = channels.filter((channel) => channel === "webhook" || channel === "realtime");
    const data: CustomData & { channels: readonly string[] } = {
      playerId,
      externalUserId,
      eventType,
      properties,
      cause,
      channels: outward,
    };
    tell(turn, customType(eventType), data, { isSilent: !channels.includes("realtime") });
  }
  if (channels.includes("inbox")) writeMessage(turn, custom);
  if (channels.includes("rules")) derive(turn, eventType, properties);
};

const textOf = (value: unknown, max: number): string | null =>
  typeof value === "string" && value !== "" ? value.slice(0, max).toWellFormed() : null;

/** Puts a message into the player's inbox: `title` and `body` of the event, else its type. */
const writeMessage = (turn: Turn, { eventType, properties }: CustomEvent): void => {
  sendMessage(turn, {
    type: eventType,
    title: textOf(properties["title"], TITLE_MAX) ?? eventType,
    body: textOf(properties["body"], BODY_MAX),
    data: properties,
    rewardGrantId: null,
    expiresMs: null,
  });
};
