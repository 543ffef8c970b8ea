import { z } from "zod";
import { SCORE_META_MAX_BYTES } from "../../domain/evaluation/boards/score-meta.ts";
import { PlayerRef } from "./leaderboard-bodies.ts";

/** A score as callers submit it. */
export const SubmittedScore = z
  .strictObject({
    playerId: PlayerRef,
    score: z.number(),
    meta: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({ description: `Shown with the score while it stands; at most ${SCORE_META_MAX_BYTES} bytes` }),
    occurredAt: z.iso
      .datetime({ offset: true })
      .optional()
      .meta({ description: "Default now; up to 24 hours ahead counts as now" }),
  })
  .meta({ id: "NewScore" });
