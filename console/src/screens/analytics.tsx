import { Page } from "../ui/page.tsx";
export const Analytics = () => <Page title="Analytics">{null}</Page>;
