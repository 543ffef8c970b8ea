import { createContext, useContext } from "react";
import type { Answer } from "../api/client.ts";

export type Project = Answer<"getProject">;
export const ProjectContext = createContext<Project | undefined>(undefined);

/** The project that is open. */
export const useProject = (): Project => {
  const project = useContext(ProjectContext);
  if (!project) throw new Error("No project is open");
  return project;
};

/** Builds addresses of screens of the open project. */
export const useTo = (): ((path: string) => string) => {
  const { id } = useProject();
  return (path) => `/p/${id}${path}`;
};
