import { createContext, useContext } from "react";
import { useLocation } from "wouter";
import type { Answer } from "../api/client.ts";

export type Project = Answer<"getProject">;
export const ProjectContext = createContext<Project | undefined>(undefined);

/** The project that is open. */
export const useProject = (): Project => {
  const project = useContext(ProjectContext);
  if (!project) throw new Error("No project is open");
  return project;
};

/** Builds addresses of screens of the open project; without one, of the console. */
export const useTo = (): ((path: string) => string) => {
  const project = useContext(ProjectContext);
  return (path) => (project ? `/p/${project.id}${path}` : path);
};

/** Goes to a screen of the open project. */
export const useGo = (): ((path: string) => void) => {
  const to = useTo();
  const [, go] = useLocation();
  return (path) => go(to(path));
};
