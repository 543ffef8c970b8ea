import { z } from "zod";
import { EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { issueWsToken } from "../../domain/player-lifecycle/ws-tokens.ts";
import { group } from "../route.ts";
import { ExternalUserId } from "./player-bodies.ts";

const WsTokenBody = z.object({
  playerId: z
    .string()
    .min(1)
    .max(260)
    .optional()
    .meta({ description: "UUID, or ext: and the externalUserId" }),
  externalUserId: ExternalUserId.optional(),
  projectId: z
    .uuid()
    .optional()
    .meta({ description: "Project of a console token; default: the tenant's only one" }),
});

const connect = group({
  tag: "Authentication",
  project: "optional",
  access: { scope: "realtime:connect", roles: EVERY_ROLE },
});

export const wsTokenRoutes = [
  connect.post("/auth/ws-token", "createWsToken", {
    summary: "Get a WebSocket token",
    description:
      "An API key gets a player's token for playerId or externalUserId; an unknown externalUserId creates " +
      "the player when the project allows it. A console user gets a token for a project. " +
      "Pass it as auth.token of the connection.",
    takesNoIdempotencyKey: true,
    // A key names the player; only a user of one project has nothing to say.
    needsBody: true,
    body: WsTokenBody,
    example: { externalUserId: "user-1" },
    response: z.object({
      token: z.string(),
      expiresIn: z.int().meta({ description: "Seconds", example: 900 }),
      expiresAt: z.iso.datetime(),
      playerId: z.uuid().optional().meta({ description: "Absent for a console token" }),
    }),
    outside: async (app, { caller, projectId, body }) => {
      const signed = await issueWsToken(app, caller, {
        ...body,
        projectId: body.projectId ?? (projectId || undefined),
      });
      return { ...signed, expiresAt: signed.expiresAt.toISOString() };
    },
  }),
];
