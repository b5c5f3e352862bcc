// VitePress' own theme with the system's fonts, so that the site loads none.

import DefaultTheme from "vitepress/theme-without-fonts";
import "./style.css";

export default DefaultTheme;
