import { createHash } from "node:crypto";
import { ALL_TIME_KEY, keyWithResets } from "./windows.ts";

export type PeriodSeed = { periodId: string; resets: number };

/**
 * Returns the id of the list of one window and one breakdown value, without a look-up in the database.
 * `seed.periodId` is the board's id for periods, new after each reset; the one window of a board without
 * periods has that id itself.
 */
export const periodIdOf = (seed: PeriodSeed, periodKey: string, board: string): string => {
  if (board === "" && periodKey === keyWithResets(ALL_TIME_KEY, seed.resets)) return seed.periodId;
  const bytes = createHash("sha256").update([seed.periodId, periodKey, board].join("\0")).digest();
  // A name-based UUID (RFC 9562, version 8: custom).
  bytes[6] = (bytes[6]! & 0x0f) | 0x80;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join(
    "-",
  );
};
