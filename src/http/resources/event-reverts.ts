import { z } from "zod";
import { actorOf, ADMINS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { Backlog, readBacklog } from "../../domain/tracking/backlog.ts";
import { group } from "../route.ts";
import { retryEvent } from "../../domain/tracking/events.ts";
import { ON_SHORTFALL, requestRevert } from "../../domain/revert/revert-events.ts";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import { EXTERNAL_ID_MAX } from "../../domain/kernel/limits.ts";
import { BULK_EVENT_IDS_MAX, startBulkRevert } from "../../domain/revert/bulk/bulk-revert.ts";
import { EventResult } from "../../domain/tracking/group-commit.ts";
import { ProjectJob } from "../../domain/long-work/project-jobs.ts";

const read = group({
  tag: "Events",
  project: "caller",
  access: { scope: ["events:read", "events:write"], roles: EVERY_ROLE },
});

export const eventBacklogRoutes = [
  read.get("/events/backlog", "getBacklog", {
    summary: "Get what waits to be processed",
    description: "How far behind the project is, for example after an import.",
    response: Backlog,
    run: (work, { projectId }) => readBacklog(work, projectId),
  }),
];

const common = group({ tag: "Events", project: "caller" });
/** Maximum length of the reason of a revert. */
const REASON_MAX = 200;

const Filter = z
  .strictObject({
    eventIds: z.array(z.uuid()).min(1).max(BULK_EVENT_IDS_MAX).optional(),
    playerId: z
      .string()
      .min(1)
      .max(EXTERNAL_ID_MAX + "ext:".length)
      .optional()
      .meta({ description: "Id of the player, or ext: and the externalUserId" }),
    eventType: z.string().min(1).max(100).optional(),
    from: IsoTime.optional().meta({ description: "timestamp from, inclusive" }),
    to: IsoTime.optional().meta({ description: "timestamp until, exclusive" }),
    receivedFrom: IsoTime.optional().meta({ description: "receivedAt from, inclusive" }),
    receivedTo: IsoTime.optional().meta({ description: "receivedAt until, exclusive" }),
  })
  .refine(
    ({ eventIds, playerId, from, receivedFrom }) =>
      [eventIds, playerId, from, receivedFrom].some((one) => one !== undefined),
    "needs one of eventIds, playerId, from and receivedFrom",
  );

const write = group({ tag: "Events", project: "caller", access: { scope: "players:write", roles: ADMINS } });

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
    response: ProjectJob,
    run: (work, { projectId, params, body, caller }) =>
      requestRevert(work, projectId, { eventId: params.eventId, actor: actorOf(caller), ...body }),
  }),
  write.post("/events/revert", "revertEvents", {
    summary: "Take many events back with everything that they have brought about",
    description:
      "As a job; each event as if it were taken back alone. The filter's fields must all hold; the job " +
      "covers events that have arrived until now, and what they have sent to other players. With `dryRun`, " +
      "the job's result counts events and players, and what would be skipped, and nothing changes. An " +
      "event that cannot be taken back, with REJECT also for a shortfall, is skipped and named in the " +
      "result. What was taken back before the job is cancelled stays so.",
    body: z.strictObject({
      filter: Filter,
      reason: z.string().min(1).max(REASON_MAX),
      onShortfall: z.enum(ON_SHORTFALL).default("CLAMP"),
      dryRun: z.boolean().default(false),
    }),
    example: {
      filter: {
        eventType: "lesson.completed",
        receivedFrom: "2026-11-23T09:00:00Z",
        receivedTo: "2026-11-23T09:30:00Z",
      },
      reason: "A bad file was imported",
      dryRun: true,
    },
    status: 201,
    response: ProjectJob,
    run: (work, { projectId, body: { filter, ...body }, caller }) => {
      const { playerId: playerRef, ...others } = filter;
      const asked = { ...body, filter: { ...others, playerRef }, actor: actorOf(caller) };
      return startBulkRevert(work, projectId, asked);
    },
  }),
];
