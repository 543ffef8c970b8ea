import { z } from "zod";
import type { Work } from "../../domain/kernel/work.ts";
import { BUILDERS, DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import {
  changeMembers,
  listMembers,
  listPlayerSegments,
  Member,
  MEMBER_ORDERS,
  MEMBERS_CHANGED_MAX,
  MembersChanged,
  PlayerSegment,
} from "../../domain/economy/segments/members.ts";
import { PREVIEW_PLAYERS_MAX, previewSegment, SegmentPreview } from "../../domain/economy/segments/pages.ts";
import { SegmentConditions } from "../../domain/evaluation/segments/membership.ts";
import { type RouteContext, group } from "../route.ts";
import { ByPlayer, Moment, paged, pageReply } from "./bodies.ts";

const common = group({ tag: "Segments", project: "caller" });
const read = common.with({ access: { scope: "players:read", roles: EVERY_ROLE } });
const write = common.with({ access: { scope: "players:write", roles: DESIGNERS } });

const Members = z.strictObject({
  playerIds: z
    .array(z.string().min(1).max(259))
    .min(1)
    .max(MEMBERS_CHANGED_MAX)
    .meta({ description: "Each the player's UUID, or ext: and the externalUserId", example: ["ext:ada"] }),
});

const changing = write.with({
  body: Members,
  example: { playerIds: ["ext:ada"] },
  response: MembersChanged,
});

type Change = Pick<
  RouteContext<{ segmentId: string }, undefined, z.output<typeof Members>>,
  "projectId" | "params" | "body"
>;

const change = (work: Work, { projectId, params, body }: Change, isMember: boolean) =>
  changeMembers(work, projectId, { segmentRef: params.segmentId, players: body.playerIds, isMember });

export const segmentRoutes = [
  common.post("/segments/preview", "previewSegment", {
    access: { scope: "config:read", roles: BUILDERS },
    summary: "Preview the members of a segment",
    description: `Looks at the ${PREVIEW_PLAYERS_MAX} newest players and changes nothing.`,
    body: z.strictObject({ definition: SegmentConditions }),
    example: { definition: { all: [{ type: "player_property", field: "level", op: "gte", value: 10 }] } },
    response: SegmentPreview,
    run: (work, { projectId, body }) => previewSegment(work, projectId, body.definition),
  }),
  read.get("/segments/{segmentId}/members", "listSegmentMembers", {
    summary: "List the members of a segment",
    description:
      "With `at`, those of a past moment, up to 400 days ago: who had entered by then and not left, by the " +
      "times of the events that had them enter and leave. A merged player stands for both.",
    ...paged(Member, MEMBER_ORDERS, {
      playerId: ByPlayer,
      at: Moment.optional().meta({
        description: "Who was in it at this moment; default: who is in it now",
      }),
    }),
    run: async (work, { projectId, params, query }) =>
      pageReply(await listMembers(work, projectId, params.segmentId, query), "members", query),
  }),
  changing.post("/segments/{segmentId}/members", "addSegmentMembers", {
    summary: "Put players into a STATIC segment",
    run: (work, asked) => change(work, asked, true),
  }),
  changing.delete("/segments/{segmentId}/members", "removeSegmentMembers", {
    summary: "Take players out of a STATIC segment",
    run: (work, asked) => change(work, asked, false),
  }),
  read.get("/players/{playerId}/segments", "listPlayerSegments", {
    summary: "List the segments a player is in",
    params: z.object({ playerId: z.string() }),
    response: z.object({
      data: z.array(PlayerSegment),
    }),
    run: async (work, { projectId, params }) => ({
      data: await listPlayerSegments(work, projectId, params.playerId),
    }),
  }),
];
