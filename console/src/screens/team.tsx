import { Page } from "../ui/page.tsx";
export const Team = () => <Page title="Team">{null}</Page>;
export const Audit = () => <Page title="Audit">{null}</Page>;
