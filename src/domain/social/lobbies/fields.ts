import { z } from "zod";
import type { Json } from "../../kernel/events/events.ts";
import { fitsBytes } from "../../kernel/oversize.ts";
import { LOBBY_NAME_MAX, LOBBY_PLAYERS_MAX, PASSCODE_MAX } from "./limits.ts";

/** Free-form JSON with a maximum size in bytes. */
export const Data = (maxBytes: number) =>
  z
    .record(z.string().max(255), z.unknown())
    .refine((value) => fitsBytes(value, maxBytes), `must be at most ${maxBytes / 1024} KiB of JSON`)
    .transform((value): Json => value)
    .meta({ description: `At most ${maxBytes / 1024} KiB of JSON` });

export const Name = z.string().trim().min(1).max(LOBBY_NAME_MAX);

export const PlayersMax = z.int().min(1).max(LOBBY_PLAYERS_MAX);

export const Passcode = z.string().min(1).max(PASSCODE_MAX);

export const Visibility = z
  .enum(["PUBLIC", "PRIVATE", "FRIENDS"])
  .refine((value) => value !== "FRIENDS", "FRIENDS is not available yet")
  .meta({ description: "PRIVATE: in no list of players, found by id or code. FRIENDS: not available yet" });

/** A player by id, or by `ext:` and the integrator's id. */
export const PlayerText = z
  .string()
  .min(1)
  .max(300)
  .overwrite((ref) => (ref.startsWith("ext:") ? ref : ref.toLowerCase()))
  .meta({ description: "UUID, or ext: and the externalUserId" });
