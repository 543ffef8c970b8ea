import { getProject, type ProjectChange, updateProject } from "../../accounts/projects/projects.ts";
import { type Project, settingsOf } from "../../accounts/projects/project.ts";
import { queueJob } from "../../long-work/project-jobs.ts";
import type { Work } from "../../kernel/work.ts";
import { levelRecalculation } from "./relevel.ts";

/** Starts the job that lowers levels above those of the curve, which `allowLevelDown` lets fall. */
export const lowerLevels = (work: Work, projectId: string, createdBy: string): Promise<unknown> =>
  queueJob(work, projectId, { kind: levelRecalculation, params: {}, createdBy });

/**
 * Changes a project as `updateProject` does. Where levels may fall from now on, those that stayed too high so
 * far are lowered by a job.
 * @throws DomainError NOT_FOUND; CONFLICT JOB_LIMIT
 */
export const changeProject = async (
  work: Work,
  { tenantId, projectId, actor }: { tenantId: string; projectId: string; actor: string },
  change: ProjectChange,
): Promise<Project> => {
  const { allowLevelDown: couldFall } = settingsOf(await getProject(work, tenantId, projectId));
  const project = await updateProject(work, tenantId, projectId, change);
  if (!couldFall && settingsOf(project).allowLevelDown) {
    await work.em.flush();
    await lowerLevels(work, project.id, actor);
  }
  return project;
};
