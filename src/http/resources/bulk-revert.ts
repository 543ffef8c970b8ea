import { z } from "zod";
import { actorOf, ADMINS } from "../../domain/kernel/caller.ts";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import { EXTERNAL_ID_MAX } from "../../domain/kernel/limits.ts";
import { BULK_EVENT_IDS_MAX, startBulkRevert } from "../../domain/revert/bulk/bulk-revert.ts";
import { ON_SHORTFALL } from "../../domain/revert/revert-events.ts";
import { group } from "../route.ts";
import { REASON_MAX } from "./event-revert.ts";
import { JobBody } from "./project-jobs.ts";

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

export const bulkRevertRoutes = [
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
    response: JobBody,
    outside: (app, { projectId, body: { filter, ...body }, caller }) => {
      const { playerId: playerRef, ...others } = filter;
      const asked = { ...body, filter: { ...others, playerRef }, actor: actorOf(caller) };
      return app.transact((work) => startBulkRevert(work, projectId, asked));
    },
  }),
];
