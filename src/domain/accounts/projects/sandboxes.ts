import { audit } from "../audit/audit.ts";
import { conflict } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { Project } from "./project.ts";
import { getProject, lockProject } from "./projects.ts";
import { forgetProjects } from "./resolve.ts";
import { NAME_MAX } from "../tenants/text.ts";

export type Sandbox = { project: Project; sandbox: Project; isNew: boolean };

/**
 * Returns the sandbox of a project, creating it if necessary. @throws NOT_FOUND, CONFLICT INVALID_STATE for a
 * sandbox itself
 */
export const openSandbox = async (work: Work, tenantId: string, projectId: string): Promise<Sandbox> => {
  const project = await getProject(work, tenantId, projectId);
  if (project.sandboxOf != null) {
    throw conflict("INVALID_STATE", `This is the sandbox of project ${project.sandboxOf}; name that one`);
  }
  const sandbox = await lockSandbox(work, project);
  return { project, sandbox, isNew: sandbox.createdAt.getTime() === work.now.getTime() };
};

/**
 * Returns the sandbox of a project, created on demand: a hidden project with its own players, events and
 * definitions, on which test keys act. The project's row is locked, so there is only ever one.
 */
export const lockSandbox = async (work: Work, project: Project): Promise<Project> => {
  const { em, now } = work;
  const owner = await lockProject(work, project.tenantId, project.id);
  const found = await em.findOne(Project, { sandboxOf: owner.id });
  if (found) return found;
  const suffix = " (sandbox)";
  const sandbox = em.create(Project, {
    id: newId(),
    tenantId: owner.tenantId,
    name: [...owner.name].slice(0, NAME_MAX - suffix.length).join("") + suffix,
    description: null,
    timezone: owner.timezone,
    settings: owner.settings,
    allowedOrigins: owner.allowedOrigins,
    configVersion: 1,
    sandboxOf: owner.id,
    createdAt: now,
    updatedAt: now,
    deletedAt: null,
  });
  await em.flush();
  await audit(work, {
    action: "sandbox.created",
    target: { type: "project", id: sandbox.id },
    tenantId: owner.tenantId,
    data: { projectId: owner.id },
  });
  work.afterCommit(forgetProjects);
  return sandbox;
};
