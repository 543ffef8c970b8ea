import { z } from "zod";
import { EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { readBacklog } from "../../domain/tracking/backlog.ts";
import { group } from "../route.ts";

const Age = z.int().nullable().meta({ description: "Age of the oldest, in seconds; null without any" });

const Backlog = z
  .object({
    events: z.object({
      waiting: z.int().meta({ description: "Events to be processed now" }),
      later: z.int().meta({ description: "Events that wait for another try, or for their time" }),
      oldestSeconds: Age,
      perSecond: z
        .int()
        .nullable()
        .meta({
          description:
            "Events processed in a second, over the last minute; null until one process was asked twice " +
            "within it, 5 seconds apart or more",
        }),
    }),
    commits: z
      .object({ waiting: z.int(), oldestSeconds: Age })
      .meta({ description: "Commits whose changes have not reached ranks, rooms and webhooks yet" }),
  })
  .meta({ id: "Backlog" });

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
