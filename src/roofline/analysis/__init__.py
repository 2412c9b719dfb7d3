"""Run → verdict, time budget, advice: what the figures mean."""

from roofline.analysis.judgement import judge as judge
