import { Page } from "../ui/page.tsx";
export const Keys = () => <Page title="Keys">{null}</Page>;
export const ProjectSettings = () => <Page title="ProjectSettings">{null}</Page>;
