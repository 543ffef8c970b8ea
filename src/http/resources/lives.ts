import { z } from "zod";
import { ADMINS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { LIVES_MAX, UNLIMITED_SECONDS_MAX } from "../../domain/evaluation/lives/lives.ts";
import { changeLives, readLives } from "../../domain/economy/lives/operations.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { group } from "../route.ts";
import { causeOf } from "./player-params.ts";

/** Lives as the API shows them. */
export const LivesBody = z
  .object({
    current: z.int(),
    max: z.int(),
    nextLifeAt: z.iso.datetime().nullable().meta({ description: "Null when full" }),
    fullAt: z.iso.datetime().nullable().meta({ description: "Null when full" }),
    unlimitedUntil: z.iso.datetime().nullable(),
  })
  .meta({ id: "Lives" });

const Amount = z.int().min(1).max(LIVES_MAX);
const Reason = z.string().min(1).max(255);
const Grant = z
  .object({
    amount: Amount.optional(),
    refill: z.literal("FULL").optional(),
    unlimitedSeconds: z.int().min(1).max(UNLIMITED_SECONDS_MAX).optional(),
    reason: Reason.default("grant"),
  })
  .refine(
    ({ amount, refill, unlimitedSeconds }) =>
      [amount, refill, unlimitedSeconds].filter((given) => given !== undefined).length === 1,
    { path: ["amount"], error: "give exactly one of amount, refill and unlimitedSeconds" },
  )
  .meta({ example: { amount: 1 } });

const common = group({ tag: "Lives", project: "caller" });
const write = common.with({ access: { scope: "players:write", roles: ADMINS } });

export const livesRoutes = [
  common.get("/players/{playerId}/lives", "getLives", {
    access: { scope: "players:read", roles: EVERY_ROLE },
    summary: "Get a player's lives",
    description:
      "As they are now, refills included; null in a project without lives (`settings.lives.enabled`).",
    response: LivesBody.nullable(),
    run: async (work, { projectId, params }) =>
      readLives(work, await getPlayer(work, projectId, params.playerId)),
  }),
  write.post("/players/{playerId}/lives/consume", "consumeLives", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Take lives from a player",
    description: "409 INSUFFICIENT_LIVES takes none. While lives are unlimited it succeeds and takes none.",
    body: z.object({ amount: Amount.default(1), reason: Reason.default("consume") }),
    example: { amount: 1, reason: "Lost a round" },
    response: LivesBody,
    run: async (work, { projectId, params, caller, body: { amount, reason } }) => {
      const player = { projectId, id: params.playerId };
      return changeLives(work, player, { amount: -amount, reason, cause: causeOf(caller) });
    },
  }),
  write.post("/players/{playerId}/lives/grant", "grantLives", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Give a player lives",
    description:
      "`amount` stops at the maximum unless the project allows more; `refill` fills up to it; " +
      "`unlimitedSeconds` adds to the time that is left of unlimited lives.",
    body: Grant,
    response: LivesBody,
    run: async (work, { projectId, params, caller, body: { amount, refill, unlimitedSeconds, reason } }) => {
      const player = { projectId, id: params.playerId };
      const what = {
        ...(amount === undefined ? {} : { amount }),
        ...(refill === undefined ? {} : { refill }),
        ...(unlimitedSeconds === undefined ? {} : { unlimitedSeconds }),
      };
      return changeLives(work, player, { ...what, reason, cause: causeOf(caller) });
    },
  }),
];
