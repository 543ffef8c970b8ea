import { z } from "zod";
import { EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { readBacklog } from "../../domain/tracking/backlog.ts";
import { route } from "../route.ts";

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

export const eventBacklogRoutes = [
  route({
    method: "get",
    path: "/events/backlog",
    id: "getBacklog",
    tag: "Events",
    project: "caller",
    summary: "Get what waits to be processed",
    description: "How far behind the project is, for example after an import.",
    access: { scope: ["events:read", "events:write"], roles: EVERY_ROLE },
    response: Backlog,
    run: (work, { projectId }) => readBacklog(work, projectId),
  }),
];
