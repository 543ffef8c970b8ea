import type { EventData } from "../domain/events.ts";
import { type LevelCurve, levelProgress } from "../domain/progression/levels.ts";
import type { PlayerMessage } from "../domain/topics.ts";
import type { Live } from "./messages.ts";

type Show = { name: string; data: (data: never, curve: LevelCurve) => unknown };

const show = <T extends "player.updated" | "player.xp_granted" | "player.level_up">(
  name: string,
  data: (data: EventData<T>, curve: LevelCurve) => unknown,
): Show => ({ name, data });

/**
 * How lines whose live form differs from the domain event are shown; every other line keeps its name and
 * data.
 */
const SHOWN: Readonly<Record<string, Show>> = {
  "player.updated": show<"player.updated">("player.updated", ({ changed, after }) => ({
    changed,
    player: after,
  })),
  "player.xp_granted": show<"player.xp_granted">("player.xp", ({ amount, xp, level, cause }, curve) => ({
    amount,
    xp,
    level,
    levelProgress: levelProgress(curve, xp),
    cause,
  })),
  "player.level_up": show<"player.level_up">("player.level_up", (data) => ({ ...data, rewards: null })),
};

/** One line of the player stream as clients hear it: exactly one live message for each line. */
export const livePlayerMessage = (
  { seq, id, type, data, at }: PlayerMessage,
  curve: LevelCurve,
): { name: string; message: Live<unknown> } => {
  const shown = Object.hasOwn(SHOWN, type) ? SHOWN[type] : undefined;
  const body = shown ? shown.data(data as never, curve) : data;
  return { name: shown?.name ?? type, message: { v: 1, id, at, seq, data: body } };
};
