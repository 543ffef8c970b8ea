import { z } from "zod";
import { actorOf, ADMINS } from "../../domain/kernel/caller.ts";
import { retryEvent } from "../../domain/tracking/events.ts";
import { ON_SHORTFALL, requestRevert } from "../../domain/revert/revert-events.ts";
import { group } from "../route.ts";
import { EventResult } from "./events.ts";
import { JobBody } from "./project-jobs.ts";

const common = group({ tag: "Events", project: "caller" });
/** Maximum length of the reason of a revert. */
export const REASON_MAX = 200;

export const eventRevertRoutes = [
  common.post("/events/{eventId}/retry", "retryEvent", {
    access: { scope: "events:write", roles: ADMINS },
    summary: "Try a FAILED event again",
    description: "It is queued with all its tries before it. An event in any other state answers 409.",
    response: EventResult,
    run: async (work, { projectId, params }) => {
      await retryEvent(work, projectId, params.eventId);
      const message = "Event queued for processing";
      return { eventId: params.eventId, status: "PENDING" as const, skipped: false, message };
    },
  }),
  common.post("/events/{eventId}/revert", "revertEvent", {
    access: { scope: "players:write", roles: ADMINS },
    summary: "Take an event back with everything that it has brought about",
    description:
      "XP, currencies and lives by opposite lines of the ledger, badges that nothing else has awarded, " +
      "counters, limits, scores, the latest period of a streak, rewards, and what was on its way to other " +
      "players or later times; an event that still waits is not processed any more. Attributes, tags and " +
      "segments that rules have set stay; the job's result says what else does. CLAMP takes what is still " +
      "there and reports the shortfall; with REJECT the job fails and nothing changes. Asked again, it " +
      "answers the same job.",
    body: z.strictObject({
      reason: z.string().min(1).max(REASON_MAX),
      onShortfall: z.enum(ON_SHORTFALL).default("CLAMP"),
    }),
    example: { reason: "Sent by mistake", onShortfall: "CLAMP" },
    response: JobBody,
    run: (work, { projectId, params, body, caller }) =>
      requestRevert(work, projectId, { eventId: params.eventId, actor: actorOf(caller), ...body }),
  }),
];
