import { Page } from "../ui/page.tsx";
export const SuperAdmin = () => <Page title="SuperAdmin">{null}</Page>;
