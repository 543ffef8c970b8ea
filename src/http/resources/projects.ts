import { z } from "zod";
import { actorOf, ADMINS, EVERY_ROLE, tenantOf } from "../../domain/kernel/caller.ts";
import { publishKeysChanged } from "../../domain/accounts/api-keys/changes.ts";
import { notFound } from "../../domain/kernel/errors.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { AllowedOrigins, isProjectOf } from "../../domain/accounts/projects/project.ts";
import {
  createProject,
  deleteProject,
  getProject,
  listProjects,
  PROJECT_SORTS,
  SettingsPatch,
  SettingsShape,
  showProject,
} from "../../domain/accounts/projects/projects.ts";
import { changeProject } from "../../domain/economy/levels/relevel.ts";
import { isIanaName } from "../../domain/kernel/zones.ts";
import { Name } from "../../domain/accounts/tenants/text.ts";
import { group } from "../route.ts";
import { Order, pageReply } from "./list-bodies.ts";
import { Deleted } from "./plain-bodies.ts";
import { sandboxRoutes } from "./sandboxes.ts";
import { testClockRoutes } from "./test-clock.ts";

const DESCRIPTION_MAX = 2_000;
const ProjectFields = z.object({
  name: Name.meta({ example: "Space Farmers" }),
  description: z.string().max(DESCRIPTION_MAX).nullable().optional(),
  timezone: z
    .string()
    .max(64)
    .refine(isIanaName, "must be an IANA time zone, such as Europe/Berlin")
    .optional()
    .meta({ description: "IANA name; default UTC", example: "Europe/Berlin" }),
  settings: SettingsPatch.optional(),
  allowedOrigins: AllowedOrigins.optional().meta({
    description:
      "Origins whose pages may use the project's keys and rooms; empty: all. Requests without the header " +
      "Origin, as servers send them, are not concerned, and console users neither",
    example: ["https://game.example.com"],
  }),
});

export const ProjectBody = z
  .object({
    id: z.uuid(),
    tenantId: z.uuid(),
    name: z.string(),
    description: z.string().nullable(),
    timezone: z.string(),
    settings: SettingsShape,
    allowedOrigins: z.array(z.string()),
    sandboxProjectId: z
      .uuid()
      .nullable()
      .meta({ description: "Where test keys act; null until it is needed" }),
    sandboxOf: z.uuid().nullable().meta({ description: "Set on a sandbox: the project it belongs to" }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Project" });

/** "none": these operations read or change the project itself; they do not take place in it. */
const common = group({ tag: "Projects", project: "none" });

const plainRoutes = [
  common.get("/projects", "listProjects", {
    summary: "List projects",
    description: "Without sandboxes. An API key sees its own project.",
    access: { scope: "projects:read", roles: EVERY_ROLE },
    query: PageQuery.extend({
      sort: z.enum(PROJECT_SORTS).default("createdAt"),
      order: Order,
      search: z.string().min(1).max(255).optional().meta({ description: "Part of the name, in any case" }),
    }),
    response: pageBody(ProjectBody),
    run: async (work, { caller, query }) => {
      const onlyId = caller.kind === "key" ? caller.ownerProjectId : undefined;
      const { projects, ...total } = await listProjects(work, tenantOf(caller), { ...query, onlyId });
      return pageReply(projects, total, query);
    },
  }),
  common.post("/projects", "createProject", {
    summary: "Create a project",
    access: { roles: ADMINS },
    body: ProjectFields,
    example: { name: "Space Farmers", timezone: "Europe/Berlin" },
    status: 201,
    response: ProjectBody,
    errors: ["PAYMENT_REQUIRED"],
    run: async (work, { caller, body }) =>
      showProject(work, await createProject(work, tenantOf(caller), body)),
  }),
  common.get("/projects/{projectId}", "getProject", {
    summary: "Get a project",
    description: "An API key may read its own project and, a test key, its sandbox.",
    access: { scope: "projects:read", roles: EVERY_ROLE },
    response: ProjectBody,
    run: async (work, { caller, params }) => {
      if (!isProjectOf(caller, params.projectId)) throw notFound("Project");
      return showProject(work, await getProject(work, tenantOf(caller), params.projectId));
    },
  }),
  common.patch("/projects/{projectId}", "updateProject", {
    // Its settings may begin work in it.
    project: "path",
    summary: "Change a project",
    description:
      "Changes the given fields; `description: null` clears it. Of `settings`, too, only the " +
      "given ones.",
    access: { roles: ADMINS },
    body: ProjectFields.partial(),
    example: { name: "Space Farmers 2", allowedOrigins: ["https://game.example.com"] },
    response: ProjectBody,
    run: async (work, { caller, projectId, body }, app) => {
      publishKeysChanged(work, app.topics);
      const where = { tenantId: tenantOf(caller), projectId, actor: actorOf(caller) };
      return showProject(work, await changeProject(work, where, body));
    },
  }),
  common.delete("/projects/{projectId}", "deleteProject", {
    summary: "Delete a project",
    description: "With its sandbox. Its API keys stop working within 5 seconds.",
    access: { roles: ADMINS },
    response: Deleted,
    run: async (work, { caller, params }, app) => {
      publishKeysChanged(work, app.topics);
      await deleteProject(work, tenantOf(caller), params.projectId);
      return { deleted: true as const };
    },
  }),
];

export const projectRoutes = [...plainRoutes, ...sandboxRoutes, ...testClockRoutes];
